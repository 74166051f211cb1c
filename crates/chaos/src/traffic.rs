//! The schedule of requests, drawn from the seed independently of the responses (open loop).

use crate::schedule::{CRASH_TEXT, InjectedFault, NODES, ScheduledFault};
use seawall_core::random::SeededRandom;
use seawall_core::vocabulary::Tier;
use seawall_testkit::validator::ClientDialect;
use serde_json::json;
use std::time::Duration;

/// Callers of each tier.
const CALLERS_BY_TIER: [(Tier, u64); 3] = [(Tier::Prime, 12), (Tier::Standard, 8), (Tier::Guest, 6)];
/// Mean time between two requests.
const MEAN_GAP: Duration = Duration::from_millis(45);
/// Time between two requests of a flood.
const FLOOD_GAP: Duration = Duration::from_millis(28);
/// Time between two requests that provoke a failure.
const HOSTILE_GAP: Duration = Duration::from_millis(60);
/// No requests before this time, so that everything has started.
const WARM_UP: Duration = Duration::from_millis(500);
/// No requests in the last period, so that the last ones can complete.
const COOL_DOWN: Duration = Duration::from_secs(4);

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
pub(crate) struct ChaosCaller {
    /// The tier of the caller.
    pub(crate) tier: Tier,
    /// The index within the tier.
    pub(crate) number: u64,
}

impl ChaosCaller {
    /// All callers.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        CALLERS_BY_TIER
            .into_iter()
            .flat_map(|(tier, count)| (0..count).map(move |number| Self { tier, number }))
    }

    /// The API key of the caller.
    pub(crate) fn key(self) -> String {
        format!("sk-chaos-{}-{:04}", self.tier.name(), self.number)
    }
}

/// One scheduled request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChaosRequest {
    /// The offset from the beginning.
    pub(crate) at: Duration,
    pub(crate) caller: ChaosCaller,
    /// The preferred node.
    pub(crate) node: usize,
    pub(crate) dialect: ClientDialect,
    pub(crate) is_streamed: bool,
    /// Whether it provokes a failure, on purpose.
    pub(crate) is_hostile: bool,
    question: String,
    max_tokens: u64,
    /// Whether it refers to a document that the model fetches: a few bytes that are billed as 150,000 tokens.
    references_document: bool,
    /// The caller disconnects after this many bytes of the body.
    pub(crate) disconnects_after: Option<u64>,
}

impl ChaosRequest {
    /// A plain request of this caller, answered in one piece.
    pub(crate) fn plain(caller: ChaosCaller) -> Self {
        Self {
            at: Duration::ZERO,
            caller,
            node: 0,
            dialect: ClientDialect::Messages,
            is_streamed: false,
            question: QUESTIONS[0].to_owned(),
            max_tokens: 20,
            references_document: false,
            disconnects_after: None,
            is_hostile: false,
        }
    }

    pub(crate) fn path_and_body(&self) -> (&'static str, String) {
        let (text, max_tokens, stream) = (&self.question, self.max_tokens, self.is_streamed);
        let turn = json!([{ "role": "user", "content": text }]);
        match self.dialect {
            ClientDialect::Messages => {
                let source = json!({ "type": "url", "url": "https://example.com/document.pdf" });
                let parts =
                    json!([{ "type": "document", "source": source }, { "type": "text", "text": text }]);
                let named = json!([{ "role": "user", "content": parts }]);
                let turn = if self.references_document { named } else { turn };
                let body =
                    json!({ "model": "manga", "max_tokens": max_tokens, "stream": stream, "messages": turn });
                ("/v1/messages", body.to_string())
            }
            ClientDialect::Completions => {
                let mut body =
                    json!({ "model": "manga", "max_tokens": max_tokens, "stream": stream, "messages": turn });
                if stream {
                    body["stream_options"] = json!({ "include_usage": true });
                }
                ("/v1/chat/completions", body.to_string())
            }
            ClientDialect::Converse => {
                let path = if stream { "/model/manga/converse-stream" } else { "/model/manga/converse" };
                let turn = json!([{ "role": "user", "content": [{ "text": text }] }]);
                (
                    path,
                    json!({ "messages": turn, "inferenceConfig": { "maxTokens": max_tokens } }).to_string(),
                )
            }
            ClientDialect::Chat => {
                ("/chat", json!({ "message": text, "stream": stream, "max_tokens": max_tokens }).to_string())
            }
        }
    }
}

/// All requests of a run, the earliest first.
pub(crate) fn schedule_requests(
    duration: Duration,
    faults: &[ScheduledFault],
    seed: u64,
) -> Vec<ChaosRequest> {
    let mut chance = SeededRandom::new(seed ^ 0x0061_736b);
    let all_callers: Vec<ChaosCaller> = ChaosCaller::all().collect();
    let any = |chance: &mut SeededRandom| all_callers[pick(chance, all_callers.len())];
    let mut requests = Vec::new();
    let (mut at, end) = (WARM_UP, duration.saturating_sub(COOL_DOWN));
    while at < end {
        let caller = any(&mut chance);
        requests.push(request_at(at, caller, &mut chance));
        at += exponential_gap(&mut chance);
    }
    // Always the same caller, so that it exceeds even what a partitioned fleet may admit; often one with a low limit.
    let guests: Vec<ChaosCaller> = ChaosCaller::all().filter(|caller| caller.tier == Tier::Guest).collect();
    let is_guest = chance.draw().below(3) > 0;
    let caller = if is_guest { guests[pick(&mut chance, guests.len())] } else { any(&mut chance) };
    for scheduled in faults {
        let InjectedFault::Flood(lasts) = scheduled.fault else { continue };
        let mut at = scheduled.at;
        while at < scheduled.at + lasts {
            requests.push(request_at(at, caller, &mut chance));
            at += FLOOD_GAP;
        }
    }
    let hostile = any(&mut chance);
    for scheduled in faults {
        let InjectedFault::HostileCaller(lasts) = scheduled.fault else { continue };
        let mut at = scheduled.at;
        while at < scheduled.at + lasts {
            let request = request_at(at, hostile, &mut chance);
            requests.push(ChaosRequest { question: CRASH_TEXT.to_owned(), is_hostile: true, ..request });
            at += HOSTILE_GAP;
        }
    }
    requests.sort_by_key(|request| request.at);
    requests
}

fn pick(chance: &mut SeededRandom, bound: usize) -> usize {
    usize::try_from(chance.draw().below(bound as u64)).unwrap_or(0)
}

fn request_at(at: Duration, caller: ChaosCaller, chance: &mut SeededRandom) -> ChaosRequest {
    let dialects =
        [ClientDialect::Messages, ClientDialect::Completions, ClientDialect::Converse, ClientDialect::Chat];
    // Few enough that some repeat, so that the answer cache is exercised.
    let question = format!("{} ({})", QUESTIONS[pick(chance, QUESTIONS.len())], chance.draw().below(40));
    ChaosRequest {
        at,
        caller,
        node: pick(chance, NODES),
        dialect: dialects[pick(chance, dialects.len())],
        is_streamed: chance.draw().below(10) < 6,
        is_hostile: false,
        question,
        max_tokens: 16 + chance.draw().below(80),
        disconnects_after: (chance.draw().below(100) < 6).then(|| chance.draw().below(1_500)),
        references_document: chance.draw().below(100) < 2,
    }
}

/// The time to the next request of a Poisson process: exponential.
fn exponential_gap(chance: &mut SeededRandom) -> Duration {
    const STEPS: u32 = 1 << 30;
    let draw = u32::try_from(chance.draw().below(u64::from(STEPS))).unwrap_or(0);
    let uniform = (f64::from(draw) + 1.0) / f64::from(STEPS);
    MEAN_GAP.mul_f64(-uniform.ln())
}

#[cfg(test)]
mod tests {
    use super::{ChaosCaller, ChaosRequest, schedule_requests};
    use crate::schedule::schedule;
    use seawall_testkit::validator::ClientDialect;
    use std::collections::BTreeSet;
    use std::time::Duration;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn the_same_seed_asks_the_same() {
        let faults = schedule(MINUTE, 3);
        assert_eq!(schedule_requests(MINUTE, &faults, 3), schedule_requests(MINUTE, &faults, 3));
        assert_ne!(schedule_requests(MINUTE, &faults, 3), schedule_requests(MINUTE, &faults, 4));
    }

    #[test]
    fn a_minute_has_some_twenty_a_second_of_everybody_in_every_dialect() {
        for seed in 0..20 {
            let all = schedule_requests(MINUTE, &[], seed);
            assert!(all.is_sorted_by_key(|one| one.at) && all.iter().all(|one| one.at < MINUTE));
            assert!((1_050..1_450).contains(&all.len()), "seed {seed}: {}", all.len());
            let flooded = schedule_requests(MINUTE, &schedule(MINUTE, seed), seed);
            assert!((all.len() + 40..3_600).contains(&flooded.len()), "seed {seed}: {}", flooded.len());
            let keys: BTreeSet<String> = all.iter().map(|one| one.caller.key()).collect();
            assert_eq!(keys.len(), ChaosCaller::all().count());
            for dialect in [
                ClientDialect::Messages,
                ClientDialect::Completions,
                ClientDialect::Converse,
                ClientDialect::Chat,
            ] {
                assert!(all.iter().filter(|one| one.dialect == dialect).count() > 150, "{dialect:?}");
            }
            let leaving = all.iter().filter(|one| one.disconnects_after.is_some()).count();
            assert!((30..140).contains(&leaving), "seed {seed}: {leaving}");
            let named =
                |one: &&ChaosRequest| one.references_document && one.dialect == ClientDialect::Messages;
            let named: Vec<_> = all.iter().filter(named).map(|one| one.path_and_body().1).collect();
            assert!((1..20).contains(&named.len()), "seed {seed}: {}", named.len());
            assert!(named.iter().all(|body| body.contains(r#""type":"url""#)));
        }
    }
}
