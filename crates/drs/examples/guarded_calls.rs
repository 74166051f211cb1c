//! Guards an API that is not DRS: five callers at once, three calls per second, and an API that throttles now and then.
//!
//! ```sh
//! cargo run -p seawall-drs --example guarded_calls
//! ```

use seawall_core::waiting::WaitingSettings;
use seawall_drs::{
    ApiCall, ApiError, ApiGuard, BucketKey, CallCounters, ErrorDescription, EventLog, GuardError,
    GuardObserver, GuardSettings, ObserverList, RateBuckets, RetryPreset, SystemRuntime,
};
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The error of the API. A guard needs its code or its status; the table of errors says what it means.
#[derive(Debug, thiserror::Error)]
#[error("slow down")]
struct TooManyCalls;

impl ApiError for TooManyCalls {
    fn describe(&self) -> ErrorDescription {
        ErrorDescription { code: Some("ThrottlingException".to_owned()), ..ErrorDescription::default() }
    }
}

/// An API that throttles every fourth call.
#[derive(Default)]
struct Inventory(AtomicU32);

impl Inventory {
    async fn count_things(&self) -> Result<u32, TooManyCalls> {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            number if number % 4 == 3 => Err(TooManyCalls),
            number => Ok(number),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let runtime = SystemRuntime::new();
    let settings = GuardSettings {
        rate: WaitingSettings::new(3, Duration::from_secs(1), 3)?,
        ..GuardSettings::preset(RetryPreset::Standard)?
    };
    // One set of buckets for all clients of the process: the quota belongs to the account, not to a client.
    let buckets = RateBuckets::new(runtime.clone());
    let bucket = buckets.bucket(BucketKey::new("123456789012", "eu-west-1"), settings.rate)?;
    let counters = Arc::new(CallCounters::default());
    let observers: Vec<Arc<dyn GuardObserver>> =
        vec![Arc::new(EventLog::new(io::stderr())), Arc::clone(&counters) as Arc<dyn GuardObserver>];
    let guard = ApiGuard::new(runtime, bucket, settings, Arc::new(ObserverList(observers)));
    let api = Inventory::default();
    let call = || guard.call(ApiCall::read("count_things"), || api.count_things());
    let answers: [Result<u32, GuardError<TooManyCalls>>; 5] =
        tokio::join!(call(), call(), call(), call(), call()).into();
    for answer in answers {
        println!("{}", answer?);
    }
    print!("{}", counters.render());
    Ok(())
}
