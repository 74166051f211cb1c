//! The schedule of requests.
//!
//! Arrivals follow from a seed and not from responses (open loop): a slow answer does not delay the next request. Both
//! sides get the same requests from the same callers at the same times.

use crate::schedule::{Outage, OutageSchedule};
use seawall_core::random::SeededRandom;
use serde_json::json;
use std::time::Duration;

/// The number of customers.
pub(crate) const CUSTOMERS: u64 = 32;
/// Mean time between two requests of customers.
const MEAN_GAP: Duration = Duration::from_millis(250);
/// Time between two requests of the flood.
const FLOOD_GAP: Duration = Duration::from_millis(5);
/// No requests before this time, so that everything has started.
const WARM_UP: Duration = Duration::from_millis(500);
/// Maximum output tokens, so that an answer takes about two seconds.
const MAX_TOKENS: u32 = 100;

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
pub(crate) enum DemoClient {
    /// A customer.
    Customer(u64),
    /// The abusive client.
    Abusive,
}

impl DemoClient {
    /// The API key of the caller.
    pub(crate) fn key(self) -> String {
        match self {
            Self::Customer(number) => format!("sk-demo-customer-{number:04}"),
            Self::Abusive => "sk-demo-abusive-client".to_owned(),
        }
    }
}

/// One scheduled request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DemoRequest {
    /// The offset from the beginning.
    pub(crate) at: Duration,
    pub(crate) client: DemoClient,
    pub(crate) question: String,
    /// Whether a streamed answer is requested.
    pub(crate) is_streamed: bool,
}

impl DemoRequest {
    /// The request body, for a model or route of this name.
    pub(crate) fn body(&self, model: &str) -> String {
        json!({
            "model": model,
            "max_tokens": MAX_TOKENS,
            "stream": self.is_streamed,
            "messages": [{ "role": "user", "content": self.question }],
        })
        .to_string()
    }
}

/// All requests, the earliest first.
pub(crate) fn schedule_requests(schedule: OutageSchedule, seed: u64) -> Vec<DemoRequest> {
    let mut chance = SeededRandom::new(seed);
    let mut requests = Vec::new();
    let mut at = WARM_UP;
    while at < schedule.duration {
        let client = DemoClient::Customer(chance.draw().below(CUSTOMERS));
        requests.push(request_at(at, client, &mut chance));
        at = at.saturating_add(exponential_gap(&mut chance));
    }
    let flood = schedule.period_of(Outage::Flood);
    let mut at = flood.start;
    while at < flood.end {
        requests.push(request_at(at, DemoClient::Abusive, &mut chance));
        at = at.saturating_add(FLOOD_GAP);
    }
    requests.sort_by_key(|scheduled| scheduled.at);
    requests
}

fn request_at(at: Duration, client: DemoClient, chance: &mut SeededRandom) -> DemoRequest {
    let index = usize::try_from(chance.draw().below(QUESTIONS.len() as u64)).unwrap_or(0);
    // The number makes questions distinct, so that identical answers are not expected.
    let question = format!("{} ({})", QUESTIONS[index], chance.draw().below(1_000));
    DemoRequest { at, client, question, is_streamed: chance.draw().below(10) < 6 }
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
    use super::{CUSTOMERS, DemoClient, exponential_gap, schedule_requests};
    use crate::schedule::{Outage, OutageSchedule};
    use seawall_core::random::SeededRandom;
    use std::collections::BTreeSet;
    use std::time::Duration;

    const MINUTE: OutageSchedule = OutageSchedule { duration: Duration::from_secs(60) };

    #[test]
    fn the_same_seed_gives_the_same_questions_and_another_gives_others() {
        assert_eq!(schedule_requests(MINUTE, 7), schedule_requests(MINUTE, 7));
        assert_ne!(schedule_requests(MINUTE, 7), schedule_requests(MINUTE, 8));
    }

    #[test]
    fn a_minute_has_about_four_customers_per_second_and_a_flood_of_hundreds() {
        for seed in 0..20 {
            let all = schedule_requests(MINUTE, seed);
            assert!(all.is_sorted_by_key(|scheduled| scheduled.at));
            assert!(all.iter().all(|scheduled| scheduled.at < MINUTE.duration));
            let (flood, customers): (Vec<_>, Vec<_>) =
                all.iter().partition(|one| one.client == DemoClient::Abusive);
            assert!((170..310).contains(&customers.len()), "seed {seed}: {}", customers.len());
            assert_eq!(flood.len(), 1_680, "200 a second for 8.4 s");
            assert!(flood.iter().all(|one| MINUTE.period_of(Outage::Flood).contains(&one.at)));
            let streamed = customers.iter().filter(|one| one.is_streamed).count();
            assert!(
                (customers.len() * 4 / 10..customers.len() * 8 / 10).contains(&streamed),
                "seed {seed}: {streamed}"
            );
            let keys: BTreeSet<String> = customers.iter().map(|one| one.client.key()).collect();
            assert!((20..=32).contains(&keys.len()), "seed {seed}: {}", keys.len());
        }
    }

    #[test]
    fn every_caller_has_a_key_of_its_own_that_is_long_enough() {
        let mut keys: BTreeSet<String> =
            (0..CUSTOMERS).map(|number| DemoClient::Customer(number).key()).collect();
        keys.insert(DemoClient::Abusive.key());
        assert_eq!(keys.len(), 33);
        assert!(keys.iter().all(|key| key.len() >= 16));
    }

    #[test]
    fn gaps_are_a_quarter_of_a_second_on_average_and_never_far_from_it() {
        let mut chance = SeededRandom::new(1);
        let gaps: Vec<Duration> = (0..10_000).map(|_| exponential_gap(&mut chance)).collect();
        let mean = gaps.iter().sum::<Duration>() / 10_000;
        assert!((240..260).contains(&mean.as_millis()), "{mean:?}");
        assert!(gaps.iter().all(|gap| *gap < Duration::from_secs(6)));
    }

    #[test]
    fn a_body_names_the_model_and_whether_to_stream() {
        let mut one = schedule_requests(MINUTE, 1).remove(0);
        one.is_streamed = true;
        let body: serde_json::Value = serde_json::from_str(&one.body("manga")).unwrap();
        assert_eq!((body["model"].as_str(), body["stream"].as_bool()), (Some("manga"), Some(true)));
        assert_eq!(body["max_tokens"], 100);
        assert_eq!(body["messages"][0]["content"], one.question.as_str());
    }
}
