//! Quotas in memory: the cost for a fleet of one node.

use super::redis::{groups, with_request};
use crate::measure::Case;
use seawall_core::time::Now;
use seawall_store::{AdmitDecision, MemoryQuotas, Quotas};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const DECISIONS: u32 = 200_000;

pub(crate) fn cases<'a>() -> anyhow::Result<Vec<Case<'a>>> {
    Ok(vec![
        case("limits in memory, 1 caller", 1, false)?,
        case("limits in memory, 1,000,000 callers", 1_000_000, false)?,
        case("complete decision in memory, 1 caller", 1, true)?,
        case("complete decision in memory, a million", 1_000_000, true)?,
    ])
}

fn case<'a>(name: &'static str, callers: u64, whole: bool) -> anyhow::Result<Case<'a>> {
    let quotas = MemoryQuotas::new(groups()?, 1)?;
    let mut now = Now::default();
    let mut number = 0_u64;
    let run = move |decisions: u32| {
        let mut granted = 0;
        for _ in 0..decisions {
            number = number.wrapping_add(1);
            // Time advances, so that callers have room in their limits.
            now = now + Duration::from_micros(20);
            let caller = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % callers;
            let decision = with_request(caller, number, whole, |ask| ready(quotas.reserve(ask, now)));
            granted += u64::from(matches!(decision, Some(Ok(AdmitDecision::Granted { .. }))));
        }
        granted
    };
    Ok(Case { name, decisions: DECISIONS, run: Box::new(run) })
}

/// Polls a future that is always ready at once.
fn ready<T>(work: impl Future<Output = T>) -> Option<T> {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}
