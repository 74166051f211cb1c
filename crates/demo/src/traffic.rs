//! The schedule of requests.
//!
//! Arrivals follow from a seed and not from responses (open loop): a slow answer does not delay the next request. Both
//! sides get the same requests from the same callers at the same times.

use crate::timetable::{Outage, Timetable};
use seawall_core::chance::SeededChance;
use serde_json::json;
use std::time::Duration;

/// The number of customers.
pub(crate) const SHOPPERS: u64 = 32;
/// Mean time between two requests of customers.
const USUAL_GAP: Duration = Duration::from_millis(250);
/// Time between two requests of the flood.
const FLOOD_GAP: Duration = Duration::from_millis(5);
/// No requests before this time, so that everything has started.
const FIRST: Duration = Duration::from_millis(500);
/// Maximum output tokens, so that an answer takes about two seconds.
const MOST_TOKENS: u32 = 100;

const QUESTIONS: [&str; 8] = [
    "おすすめの漫画は？",
    "Which manga should I read after a long day?",
    "続きが気になる作品を教えてください。",
    "I liked the one about the lighthouse. What is similar?",
    "子どもと一緒に読める漫画はありますか？",
    "Do you have something short, in one volume?",
    "全巻そろえるならどれがいいですか？",
    "A present for somebody who has read everything?",
];

/// A caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// A customer.
    Shopper(u64),
    /// The abusive client.
    Flooder,
}

impl Who {
    /// The API key of the caller.
    pub(crate) fn key(self) -> String {
        match self {
            Self::Shopper(number) => format!("sk-demo-shopper-{number:04}"),
            Self::Flooder => "sk-demo-the-one-who-floods".to_owned(),
        }
    }
}

/// One scheduled request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// The offset from the beginning.
    pub(crate) at: Duration,
    pub(crate) who: Who,
    pub(crate) question: String,
    /// Whether a streamed answer is requested.
    pub(crate) is_streamed: bool,
}

impl Arrival {
    /// The request body, for a model or route of this name.
    pub(crate) fn body(&self, model: &str) -> String {
        json!({
            "model": model,
            "max_tokens": MOST_TOKENS,
            "stream": self.is_streamed,
            "messages": [{ "role": "user", "content": self.question }],
        })
        .to_string()
    }
}

/// All requests, the earliest first.
pub(crate) fn arrivals(timetable: Timetable, seed: u64) -> Vec<Arrival> {
    let mut chance = SeededChance::new(seed);
    let mut arrivals = Vec::new();
    let mut at = FIRST;
    while at < timetable.whole {
        let who = Who::Shopper(chance.draw().below(SHOPPERS));
        arrivals.push(arrival(at, who, &mut chance));
        at = at.saturating_add(gap(&mut chance));
    }
    let flood = timetable.during(Outage::Flood);
    let mut at = flood.start;
    while at < flood.end {
        arrivals.push(arrival(at, Who::Flooder, &mut chance));
        at = at.saturating_add(FLOOD_GAP);
    }
    arrivals.sort_by_key(|arrival| arrival.at);
    arrivals
}

fn arrival(at: Duration, who: Who, chance: &mut SeededChance) -> Arrival {
    let place = usize::try_from(chance.draw().below(QUESTIONS.len() as u64)).unwrap_or(0);
    // The number makes questions distinct, so that identical answers are not expected.
    let question = format!("{} ({})", QUESTIONS[place], chance.draw().below(1_000));
    Arrival { at, who, question, is_streamed: chance.draw().below(10) < 6 }
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
    use super::{SHOPPERS, Who, arrivals, gap};
    use crate::timetable::{Outage, Timetable};
    use seawall_core::chance::SeededChance;
    use std::collections::BTreeSet;
    use std::time::Duration;

    const MINUTE: Timetable = Timetable { whole: Duration::from_secs(60) };

    #[test]
    fn the_same_seed_gives_the_same_questions_and_another_gives_others() {
        assert_eq!(arrivals(MINUTE, 7), arrivals(MINUTE, 7));
        assert_ne!(arrivals(MINUTE, 7), arrivals(MINUTE, 8));
    }

    #[test]
    fn a_minute_has_some_four_shoppers_a_second_and_a_flood_of_hundreds() {
        for seed in 0..20 {
            let all = arrivals(MINUTE, seed);
            assert!(all.is_sorted_by_key(|arrival| arrival.at));
            assert!(all.iter().all(|arrival| arrival.at < MINUTE.whole));
            let (flood, shop): (Vec<_>, Vec<_>) = all.iter().partition(|one| one.who == Who::Flooder);
            assert!((170..310).contains(&shop.len()), "seed {seed}: {}", shop.len());
            assert_eq!(flood.len(), 1_680, "200 a second for 8.4 s");
            assert!(flood.iter().all(|one| MINUTE.during(Outage::Flood).contains(&one.at)));
            let streamed = shop.iter().filter(|one| one.is_streamed).count();
            assert!(
                (shop.len() * 4 / 10..shop.len() * 8 / 10).contains(&streamed),
                "seed {seed}: {streamed}"
            );
            let keys: BTreeSet<String> = shop.iter().map(|one| one.who.key()).collect();
            assert!((20..=32).contains(&keys.len()), "seed {seed}: {}", keys.len());
        }
    }

    #[test]
    fn every_caller_has_a_key_of_its_own_that_is_long_enough() {
        let mut keys: BTreeSet<String> = (0..SHOPPERS).map(|number| Who::Shopper(number).key()).collect();
        keys.insert(Who::Flooder.key());
        assert_eq!(keys.len(), 33);
        assert!(keys.iter().all(|key| key.len() >= 16));
    }

    #[test]
    fn gaps_are_a_quarter_of_a_second_on_average_and_never_far_from_it() {
        let mut chance = SeededChance::new(1);
        let gaps: Vec<Duration> = (0..10_000).map(|_| gap(&mut chance)).collect();
        let mean = gaps.iter().sum::<Duration>() / 10_000;
        assert!((240..260).contains(&mean.as_millis()), "{mean:?}");
        assert!(gaps.iter().all(|gap| *gap < Duration::from_secs(6)));
    }

    #[test]
    fn a_body_says_who_is_asked_and_whether_pieces_are_wanted() {
        let mut one = arrivals(MINUTE, 1).remove(0);
        one.is_streamed = true;
        let body: serde_json::Value = serde_json::from_str(&one.body("manga")).unwrap();
        assert_eq!((body["model"].as_str(), body["stream"].as_bool()), (Some("manga"), Some(true)));
        assert_eq!(body["max_tokens"], 100);
        assert_eq!(body["messages"][0]["content"], one.question.as_str());
    }
}
