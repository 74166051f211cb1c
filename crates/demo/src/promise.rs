//! What Seawall promises, and whether it held.
//!
//! Each promise is a pure function of the counts. It does not explain numbers away: excused requests are counted and
//! reported separately.

use crate::front::{Books, Told};
use crate::score::Counts;
use seawall_core::money::Money;
use serde::Serialize;

/// One promise and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Promise {
    /// The identifier for programs.
    pub name: &'static str,
    /// The statement.
    pub says: &'static str,
    /// Whether it held.
    pub held: bool,
    /// The numbers that it was judged by.
    pub counted: String,
}

/// Seawall's ledger beside its models' bill, in nano-dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ledger {
    /// The daily budget.
    pub cap: u64,
    /// The final state of the ledger.
    pub books: Books,
    /// The models' bill.
    pub billed: u64,
    /// The amount posted for calls whose usage arrived.
    pub told_posted: Told,
    /// The amount billed for calls that were delivered completely.
    pub told_billed: Told,
    /// The bill when Seawall was stopped for the restart.
    pub billed_at_stop: u64,
    /// The posted amount after the restart, before any new request.
    pub posted_at_start: u64,
}

/// The input of all promises.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) shoppers: Counts,
    pub(crate) flooder: Counts,
    /// The customers whose requests were in flight beyond the drain timeout.
    pub(crate) beyond_the_drain: Counts,
    pub(crate) ledger: Ledger,
}

/// All promises, judged.
pub(crate) fn judged(facts: &Facts) -> Vec<Promise> {
    let Facts { shoppers, flooder, beyond_the_drain: beyond, ledger } = facts;
    let of = |number: u64, all: u64| format!("{number} of {all}");
    let all = shoppers.asked + flooder.asked;
    let lost = shoppers.lost.saturating_sub(beyond.lost);
    let falsely = (shoppers.ended_falsely + flooder.ended_falsely).saturating_sub(beyond.ended_falsely);
    let hung = shoppers.hung + flooder.hung;
    let refused = shoppers.refused_rightly + shoppers.refused_wrongly;
    let excused =
        if beyond.asked > 0 { format!("; {} beyond the drain", beyond.asked) } else { String::new() };
    let promise = |name, says, held, counted| Promise { name, says, held, counted };
    let dollars = Money::from_nanos;
    vec![
        promise(
            "nobody_lost",
            "nobody in the shop was lost",
            // A run in which no customer was served proves nothing.
            lost == 0 && shoppers.answered > 0,
            format!("{} lost{excused}", of(lost, shoppers.asked)),
        ),
        promise("nobody_hung", "nobody was left waiting", hung == 0, format!("{} hung", of(hung, all))),
        promise(
            "no_false_end",
            "no answer ended as if it were complete, or without a word",
            falsely == 0,
            format!("{} ended falsely{excused}", of(falsely, all)),
        ),
        promise(
            "others_not_refused",
            "nobody in the shop was refused",
            refused == 0,
            format!("{} refused", of(refused, shoppers.asked)),
        ),
        promise(
            "flooder_refused_with_hint",
            "who flooded was refused, and told when to come back",
            flooder.refused_rightly > 0 && flooder.refused_wrongly == 0 && flooder.lost == 0,
            format!("{} refused so", of(flooder.refused_rightly, flooder.asked)),
        ),
        promise(
            "spend_within_cap",
            "no more was spent than may be spent",
            ledger.books.posted <= ledger.cap,
            format!("{} of {}", dollars(ledger.books.posted), dollars(ledger.cap)),
        ),
        promise(
            "bill_within_books",
            "the models' bill is no higher than the books",
            ledger.billed <= ledger.books.posted,
            format!("billed {}, posted {}", dollars(ledger.billed), dollars(ledger.books.posted)),
        ),
        promise(
            "told_usage_exact",
            "where a model told its usage, books and bill agree to the last digit",
            ledger.told_posted == ledger.told_billed,
            told(ledger),
        ),
        promise(
            "spend_remembered",
            "what was spent was known after the restart",
            ledger.billed_at_stop <= ledger.posted_at_start && ledger.billed_at_stop > 0,
            format!(
                "billed {} before, posted {} after",
                dollars(ledger.billed_at_stop),
                dollars(ledger.posted_at_start)
            ),
        ),
        promise(
            "nothing_reserved",
            "nothing is still set aside at the end",
            ledger.books.held == 0,
            format!("{} set aside", dollars(ledger.books.held)),
        ),
    ]
}

fn told(ledger: &Ledger) -> String {
    let Ledger { told_posted, told_billed, .. } = ledger;
    let dollars = |told: &Told| Money::from_nanos(told.nano_dollars);
    if told_posted == told_billed {
        return format!("{} calls, {}", told_posted.calls, dollars(told_posted));
    }
    let (posted, billed) = (dollars(told_posted), dollars(told_billed));
    format!("posted {posted} for {} calls, billed {billed} for {}", told_posted.calls, told_billed.calls)
}

#[cfg(test)]
mod tests {
    use super::{Facts, Ledger, judged};
    use crate::front::{Books, Told};
    use crate::score::Counts;

    /// A run in which every promise just holds.
    fn good() -> Facts {
        let told = Told { calls: 3, nano_dollars: 90 };
        Facts {
            shoppers: Counts { asked: 10, answered: 9, broken_off: 1, ..Counts::default() },
            flooder: Counts { asked: 5, answered: 4, refused_rightly: 1, ..Counts::default() },
            beyond_the_drain: Counts::default(),
            ledger: Ledger {
                cap: 100,
                books: Books { posted: 100, held: 0 },
                billed: 100,
                told_posted: told,
                told_billed: told,
                billed_at_stop: 50,
                posted_at_start: 50,
            },
        }
    }

    fn broken(change: impl FnOnce(&mut Facts)) -> Vec<&'static str> {
        let mut facts = good();
        change(&mut facts);
        judged(&facts).into_iter().filter(|promise| !promise.held).map(|promise| promise.name).collect()
    }

    #[test]
    fn promises_hold_up_to_their_very_bounds() {
        assert_eq!(broken(|_| {}), [""; 0]);
        assert_eq!(judged(&good()).len(), 10);
    }

    #[test]
    fn each_promise_is_broken_by_its_own_number_and_no_other() {
        assert_eq!(broken(|facts| facts.shoppers.lost = 1), ["nobody_lost"]);
        assert_eq!(broken(|facts| facts.shoppers.answered = 0), ["nobody_lost"]);
        assert_eq!(broken(|facts| facts.shoppers.hung = 1), ["nobody_hung"]);
        assert_eq!(broken(|facts| facts.flooder.hung = 1), ["nobody_hung"]);
        assert_eq!(broken(|facts| facts.shoppers.ended_falsely = 1), ["no_false_end"]);
        assert_eq!(broken(|facts| facts.flooder.ended_falsely = 1), ["no_false_end"]);
        assert_eq!(broken(|facts| facts.shoppers.refused_wrongly = 1), ["others_not_refused"]);
        assert_eq!(broken(|facts| facts.flooder.refused_rightly = 0), ["flooder_refused_with_hint"]);
        assert_eq!(broken(|facts| facts.flooder.refused_wrongly = 1), ["flooder_refused_with_hint"]);
        assert_eq!(broken(|facts| facts.flooder.lost = 1), ["flooder_refused_with_hint"]);
        assert_eq!(broken(|facts| facts.ledger.books.posted = 101), ["spend_within_cap"]);
        assert_eq!(broken(|facts| facts.ledger.billed = 101), ["bill_within_books"]);
        assert_eq!(broken(|facts| facts.ledger.told_billed.nano_dollars = 91), ["told_usage_exact"]);
        assert_eq!(broken(|facts| facts.ledger.told_posted.calls = 2), ["told_usage_exact"]);
        assert_eq!(broken(|facts| facts.ledger.posted_at_start = 49), ["spend_remembered"]);
        assert_eq!(broken(|facts| facts.ledger.billed_at_stop = 0), ["spend_remembered"]);
        assert_eq!(broken(|facts| facts.ledger.books.held = 1), ["nothing_reserved"]);
    }

    #[test]
    fn who_stayed_beyond_the_drain_is_excused_and_told() {
        let mut facts = good();
        (facts.shoppers.lost, facts.shoppers.ended_falsely) = (1, 1);
        facts.beyond_the_drain = Counts { asked: 2, lost: 1, ended_falsely: 1, ..Counts::default() };
        let promises = judged(&facts);
        assert!(promises.iter().all(|promise| promise.held));
        assert_eq!(promises[0].counted, "0 of 10 lost; 2 beyond the drain");
        facts.shoppers.lost = 2;
        assert!(!judged(&facts)[0].held);
    }
}
