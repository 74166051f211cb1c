//! The schedule of requests, drawn from the seed independently of the responses (open loop).

use crate::schedule::{CRASH, NODES, Planned, Trouble};
use seawall_core::chance::SeededChance;
use seawall_core::vocabulary::Tier;
use seawall_demo::judge::Dialect;
use serde_json::json;
use std::time::Duration;

/// Callers of each tier.
const OF_TIER: [(Tier, u64); 3] = [(Tier::Prime, 12), (Tier::Standard, 8), (Tier::Guest, 6)];
/// Mean time between two requests.
const USUAL_GAP: Duration = Duration::from_millis(45);
/// Time between two requests of a flood.
const FLOOD_GAP: Duration = Duration::from_millis(28);
/// Time between two requests that provoke a failure.
const HOSTILE_GAP: Duration = Duration::from_millis(60);
/// No requests before this time, so that everything has started.
const FIRST: Duration = Duration::from_millis(500);
/// No requests in the last period, so that the last ones can complete.
const LAST: Duration = Duration::from_secs(4);

const QUESTIONS: [&str; 6] = [
    "おすすめの漫画は？",
    "Which manga should I read after a long day?",
    "続きが気になる作品を教えてください。",
    "I liked the one about the lighthouse. What is similar?",
    "全巻そろえるならどれがいいですか？",
    "A present for somebody who has read everything?",
];

/// A caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Who {
    /// The tier of the caller.
    pub(crate) tier: Tier,
    /// The index within the tier.
    pub(crate) number: u64,
}

impl Who {
    /// All callers.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        OF_TIER.into_iter().flat_map(|(tier, many)| (0..many).map(move |number| Self { tier, number }))
    }

    /// The API key of the caller.
    pub(crate) fn key(self) -> String {
        format!("sk-chaos-{}-{:04}", self.tier.name(), self.number)
    }
}

/// One scheduled request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// The offset from the beginning.
    pub(crate) at: Duration,
    pub(crate) who: Who,
    /// The preferred node.
    pub(crate) node: usize,
    pub(crate) dialect: Dialect,
    pub(crate) is_streamed: bool,
    /// Whether it provokes a failure, on purpose.
    pub(crate) is_hostile: bool,
    question: String,
    most_tokens: u64,
    /// Whether it refers to a document that the model fetches: a few bytes that are billed as 150,000 tokens.
    names_document: bool,
    /// The caller disconnects after this many bytes of the body.
    pub(crate) leaves_after: Option<u64>,
}

impl Arrival {
    /// A plain request of this caller, answered in one piece.
    pub(crate) fn whole(who: Who) -> Self {
        Self {
            at: Duration::ZERO,
            who,
            node: 0,
            dialect: Dialect::Messages,
            is_streamed: false,
            question: QUESTIONS[0].to_owned(),
            most_tokens: 20,
            names_document: false,
            leaves_after: None,
            is_hostile: false,
        }
    }

    /// The path and the body.
    pub(crate) fn written(&self) -> (&'static str, String) {
        let (text, most, stream) = (&self.question, self.most_tokens, self.is_streamed);
        let turn = json!([{ "role": "user", "content": text }]);
        match self.dialect {
            Dialect::Messages => {
                let source = json!({ "type": "url", "url": "https://example.com/document.pdf" });
                let parts =
                    json!([{ "type": "document", "source": source }, { "type": "text", "text": text }]);
                let named = json!([{ "role": "user", "content": parts }]);
                let turn = if self.names_document { named } else { turn };
                let body =
                    json!({ "model": "manga", "max_tokens": most, "stream": stream, "messages": turn });
                ("/v1/messages", body.to_string())
            }
            Dialect::Completions => {
                let mut body =
                    json!({ "model": "manga", "max_tokens": most, "stream": stream, "messages": turn });
                if stream {
                    body["stream_options"] = json!({ "include_usage": true });
                }
                ("/v1/chat/completions", body.to_string())
            }
            Dialect::Converse => {
                let path = if stream { "/model/manga/converse-stream" } else { "/model/manga/converse" };
                let turn = json!([{ "role": "user", "content": [{ "text": text }] }]);
                (path, json!({ "messages": turn, "inferenceConfig": { "maxTokens": most } }).to_string())
            }
            Dialect::Chat => {
                ("/chat", json!({ "message": text, "stream": stream, "max_tokens": most }).to_string())
            }
        }
    }
}

/// All requests of a run, the earliest first.
pub(crate) fn arrivals(whole: Duration, troubles: &[Planned], seed: u64) -> Vec<Arrival> {
    let mut chance = SeededChance::new(seed ^ 0x0061_736b);
    let everybody: Vec<Who> = Who::all().collect();
    let any = |chance: &mut SeededChance| everybody[pick(chance, everybody.len())];
    let mut arrivals = Vec::new();
    let (mut at, end) = (FIRST, whole.saturating_sub(LAST));
    while at < end {
        let who = any(&mut chance);
        arrivals.push(arrival(at, who, &mut chance));
        at += gap(&mut chance);
    }
    // Always the same caller, so that it exceeds even what a partitioned fleet may admit; often one with a low limit.
    let guests: Vec<Who> = Who::all().filter(|who| who.tier == Tier::Guest).collect();
    let is_guest = chance.draw().below(3) > 0;
    let who = if is_guest { guests[pick(&mut chance, guests.len())] } else { any(&mut chance) };
    for planned in troubles {
        let Trouble::Flood(lasts) = planned.trouble else { continue };
        let mut at = planned.at;
        while at < planned.at + lasts {
            arrivals.push(arrival(at, who, &mut chance));
            at += FLOOD_GAP;
        }
    }
    let hostile = any(&mut chance);
    for planned in troubles {
        let Trouble::Hostile(lasts) = planned.trouble else { continue };
        let mut at = planned.at;
        while at < planned.at + lasts {
            let asks = arrival(at, hostile, &mut chance);
            arrivals.push(Arrival { question: CRASH.to_owned(), is_hostile: true, ..asks });
            at += HOSTILE_GAP;
        }
    }
    arrivals.sort_by_key(|arrival| arrival.at);
    arrivals
}

fn pick(chance: &mut SeededChance, bound: usize) -> usize {
    usize::try_from(chance.draw().below(bound as u64)).unwrap_or(0)
}

fn arrival(at: Duration, who: Who, chance: &mut SeededChance) -> Arrival {
    let dialects = [Dialect::Messages, Dialect::Completions, Dialect::Converse, Dialect::Chat];
    // Few enough that some repeat, so that the answer cache is exercised.
    let question = format!("{} ({})", QUESTIONS[pick(chance, QUESTIONS.len())], chance.draw().below(40));
    Arrival {
        at,
        who,
        node: pick(chance, NODES),
        dialect: dialects[pick(chance, dialects.len())],
        is_streamed: chance.draw().below(10) < 6,
        is_hostile: false,
        question,
        most_tokens: 16 + chance.draw().below(80),
        leaves_after: (chance.draw().below(100) < 6).then(|| chance.draw().below(1_500)),
        names_document: chance.draw().below(100) < 2,
    }
}

/// The time to the next request of a Poisson process: exponential.
fn gap(chance: &mut SeededChance) -> Duration {
    const STEPS: u32 = 1 << 30;
    let lot = u32::try_from(chance.draw().below(u64::from(STEPS))).unwrap_or(0);
    let even = (f64::from(lot) + 1.0) / f64::from(STEPS);
    USUAL_GAP.mul_f64(-even.ln())
}

#[cfg(test)]
mod tests {
    use super::{Arrival, Who, arrivals};
    use crate::schedule::schedule;
    use seawall_demo::judge::Dialect;
    use std::collections::BTreeSet;
    use std::time::Duration;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn the_same_seed_asks_the_same() {
        let troubles = schedule(MINUTE, 3);
        assert_eq!(arrivals(MINUTE, &troubles, 3), arrivals(MINUTE, &troubles, 3));
        assert_ne!(arrivals(MINUTE, &troubles, 3), arrivals(MINUTE, &troubles, 4));
    }

    #[test]
    fn a_minute_has_some_twenty_a_second_of_everybody_in_every_dialect() {
        for seed in 0..20 {
            let all = arrivals(MINUTE, &[], seed);
            assert!(all.is_sorted_by_key(|one| one.at) && all.iter().all(|one| one.at < MINUTE));
            assert!((1_050..1_450).contains(&all.len()), "seed {seed}: {}", all.len());
            let flooded = arrivals(MINUTE, &schedule(MINUTE, seed), seed);
            assert!((all.len() + 40..3_600).contains(&flooded.len()), "seed {seed}: {}", flooded.len());
            let keys: BTreeSet<String> = all.iter().map(|one| one.who.key()).collect();
            assert_eq!(keys.len(), Who::all().count());
            for dialect in [Dialect::Messages, Dialect::Completions, Dialect::Converse, Dialect::Chat] {
                assert!(all.iter().filter(|one| one.dialect == dialect).count() > 150, "{dialect:?}");
            }
            let leaving = all.iter().filter(|one| one.leaves_after.is_some()).count();
            assert!((30..140).contains(&leaving), "seed {seed}: {leaving}");
            let named = |one: &&Arrival| one.names_document && one.dialect == Dialect::Messages;
            let named: Vec<_> = all.iter().filter(named).map(|one| one.written().1).collect();
            assert!((1..20).contains(&named.len()), "seed {seed}: {}", named.len());
            assert!(named.iter().all(|body| body.contains(r#""type":"url""#)));
        }
    }
}
