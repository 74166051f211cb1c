//! What Seawall promises, and whether it held.
//!
//! Each promise is a pure function of the counts. It does not explain numbers away: excused requests are counted and
//! reported separately.

use crate::demo_gateway::{LedgerBalance, ReportedCalls};
use crate::score::OutcomeCounts;
use seawall_core::money::Money;
use serde::Serialize;

/// One promise and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Promise {
    /// The identifier for programs.
    pub name: &'static str,
    /// The statement.
    pub statement: &'static str,
    /// Whether it held.
    pub held: bool,
    /// The numbers that it was judged by.
    pub evidence: String,
}

/// Seawall's ledger beside its models' bill, in nano-dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LedgerComparison {
    /// The daily budget.
    pub cap: u64,
    /// The final state of the ledger.
    pub balance: LedgerBalance,
    /// The models' bill.
    pub billed: u64,
    /// The amount posted for calls whose usage arrived.
    pub reported_posted: ReportedCalls,
    /// The amount billed for calls that were delivered completely.
    pub reported_billed: ReportedCalls,
    /// The bill when Seawall was stopped for the restart.
    pub billed_at_stop: u64,
    /// The posted amount after the restart, before any new request.
    pub posted_after_restart: u64,
}

/// The input of all promises.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PromiseInput {
    pub(crate) customers: OutcomeCounts,
    pub(crate) abusive_client: OutcomeCounts,
    /// The customers whose requests were in flight beyond the drain timeout.
    pub(crate) drain_exceeded: OutcomeCounts,
    pub(crate) ledger: LedgerComparison,
}

/// All promises, judged.
pub(crate) fn check_promises(input: &PromiseInput) -> Vec<Promise> {
    let PromiseInput { customers, abusive_client, drain_exceeded: beyond, ledger } = input;
    let of = |number: u64, all: u64| format!("{number} of {all}");
    let all = customers.sent + abusive_client.sent;
    let lost = customers.lost.saturating_sub(beyond.lost);
    let truncated = (customers.truncated + abusive_client.truncated).saturating_sub(beyond.truncated);
    let hung = customers.hung + abusive_client.hung;
    let rejected = customers.rejected_as_abuse + customers.rejected_unexpectedly;
    let excused =
        if beyond.sent > 0 { format!("; {} beyond the drain timeout", beyond.sent) } else { String::new() };
    let promise = |name, statement, held, evidence| Promise { name, statement, held, evidence };
    let dollars = Money::from_nanos;
    vec![
        promise(
            "no_request_lost",
            "no customer request was lost",
            // A run in which no customer was served proves nothing.
            lost == 0 && customers.answered > 0,
            format!("{} lost{excused}", of(lost, customers.sent)),
        ),
        promise("no_request_hung", "no request hung", hung == 0, format!("{} hung", of(hung, all))),
        promise(
            "no_false_completion",
            "no answer was truncated without an error",
            truncated == 0,
            format!("{} truncated{excused}", of(truncated, all)),
        ),
        promise(
            "customers_not_rejected",
            "no customer was rejected",
            rejected == 0,
            format!("{} rejected", of(rejected, customers.sent)),
        ),
        promise(
            "abusive_client_rate_limited",
            "the abusive client was rate limited with retry-after",
            abusive_client.rejected_as_abuse > 0
                && abusive_client.rejected_unexpectedly == 0
                && abusive_client.lost == 0,
            format!("{} rate limited", of(abusive_client.rejected_as_abuse, abusive_client.sent)),
        ),
        promise(
            "spend_within_budget",
            "spend stayed within the daily budget",
            ledger.balance.posted <= ledger.cap,
            format!("{} of {}", dollars(ledger.balance.posted), dollars(ledger.cap)),
        ),
        promise(
            "bill_within_ledger",
            "the models' bill does not exceed the ledger",
            ledger.billed <= ledger.balance.posted,
            format!("billed {}, posted {}", dollars(ledger.billed), dollars(ledger.balance.posted)),
        ),
        promise(
            "reported_usage_exact",
            "for calls with reported usage, ledger and bill are equal",
            ledger.reported_posted == ledger.reported_billed,
            describe_reported(ledger),
        ),
        promise(
            "spend_survives_restart",
            "spend survived the restart",
            ledger.billed_at_stop <= ledger.posted_after_restart && ledger.billed_at_stop > 0,
            format!(
                "billed {} before, posted {} after",
                dollars(ledger.billed_at_stop),
                dollars(ledger.posted_after_restart)
            ),
        ),
        promise(
            "nothing_held",
            "no reservation is left at the end",
            ledger.balance.held == 0,
            format!("{} held", dollars(ledger.balance.held)),
        ),
    ]
}

fn describe_reported(ledger: &LedgerComparison) -> String {
    let LedgerComparison { reported_posted, reported_billed, .. } = ledger;
    let dollars = |reported: &ReportedCalls| Money::from_nanos(reported.nano_dollars);
    if reported_posted == reported_billed {
        return format!("{} calls, {}", reported_posted.calls, dollars(reported_posted));
    }
    let (posted, billed) = (dollars(reported_posted), dollars(reported_billed));
    format!(
        "posted {posted} for {} calls, billed {billed} for {}",
        reported_posted.calls, reported_billed.calls
    )
}

#[cfg(test)]
mod tests {
    use super::{LedgerComparison, PromiseInput, check_promises};
    use crate::demo_gateway::{LedgerBalance, ReportedCalls};
    use crate::score::OutcomeCounts;

    /// A run in which every promise just holds.
    fn good() -> PromiseInput {
        let reported = ReportedCalls { calls: 3, nano_dollars: 90 };
        PromiseInput {
            customers: OutcomeCounts { sent: 10, answered: 9, interrupted: 1, ..OutcomeCounts::default() },
            abusive_client: OutcomeCounts {
                sent: 5,
                answered: 4,
                rejected_as_abuse: 1,
                ..OutcomeCounts::default()
            },
            drain_exceeded: OutcomeCounts::default(),
            ledger: LedgerComparison {
                cap: 100,
                balance: LedgerBalance { posted: 100, held: 0 },
                billed: 100,
                reported_posted: reported,
                reported_billed: reported,
                billed_at_stop: 50,
                posted_after_restart: 50,
            },
        }
    }

    fn broken(change: impl FnOnce(&mut PromiseInput)) -> Vec<&'static str> {
        let mut input = good();
        change(&mut input);
        check_promises(&input)
            .into_iter()
            .filter(|promise| !promise.held)
            .map(|promise| promise.name)
            .collect()
    }

    #[test]
    fn promises_hold_up_to_their_very_bounds() {
        assert_eq!(broken(|_| {}), [""; 0]);
        assert_eq!(check_promises(&good()).len(), 10);
    }

    #[test]
    fn each_promise_is_broken_by_its_own_number_and_no_other() {
        assert_eq!(broken(|input| input.customers.lost = 1), ["no_request_lost"]);
        assert_eq!(broken(|input| input.customers.answered = 0), ["no_request_lost"]);
        assert_eq!(broken(|input| input.customers.hung = 1), ["no_request_hung"]);
        assert_eq!(broken(|input| input.abusive_client.hung = 1), ["no_request_hung"]);
        assert_eq!(broken(|input| input.customers.truncated = 1), ["no_false_completion"]);
        assert_eq!(broken(|input| input.abusive_client.truncated = 1), ["no_false_completion"]);
        assert_eq!(broken(|input| input.customers.rejected_unexpectedly = 1), ["customers_not_rejected"]);
        assert_eq!(
            broken(|input| input.abusive_client.rejected_as_abuse = 0),
            ["abusive_client_rate_limited"]
        );
        assert_eq!(
            broken(|input| input.abusive_client.rejected_unexpectedly = 1),
            ["abusive_client_rate_limited"]
        );
        assert_eq!(broken(|input| input.abusive_client.lost = 1), ["abusive_client_rate_limited"]);
        assert_eq!(broken(|input| input.ledger.balance.posted = 101), ["spend_within_budget"]);
        assert_eq!(broken(|input| input.ledger.billed = 101), ["bill_within_ledger"]);
        assert_eq!(broken(|input| input.ledger.reported_billed.nano_dollars = 91), ["reported_usage_exact"]);
        assert_eq!(broken(|input| input.ledger.reported_posted.calls = 2), ["reported_usage_exact"]);
        assert_eq!(broken(|input| input.ledger.posted_after_restart = 49), ["spend_survives_restart"]);
        assert_eq!(broken(|input| input.ledger.billed_at_stop = 0), ["spend_survives_restart"]);
        assert_eq!(broken(|input| input.ledger.balance.held = 1), ["nothing_held"]);
    }

    #[test]
    fn requests_beyond_the_drain_timeout_are_excused_and_reported() {
        let mut input = good();
        (input.customers.lost, input.customers.truncated) = (1, 1);
        input.drain_exceeded = OutcomeCounts { sent: 2, lost: 1, truncated: 1, ..OutcomeCounts::default() };
        let promises = check_promises(&input);
        assert!(promises.iter().all(|promise| promise.held));
        assert_eq!(promises[0].evidence, "0 of 10 lost; 2 beyond the drain timeout");
        input.customers.lost = 2;
        assert!(!check_promises(&input)[0].held);
    }
}
