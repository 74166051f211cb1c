//! Model test of the ledger against a naive reference: a list of all reservations, with sums recomputed each time.

use super::{DAY, ask, at, nanos, small, small_ledger};
use crate::budget::{
    ApplyDecision, BudgetAccount, BudgetEntry, BudgetLedger, BudgetName, BudgetOwner, BudgetPeriod,
    BudgetReservation, CalendarHour, CalendarOffset, Correction, PeriodCaps, ReservationRequest,
    SessionTokens, WindowCaps,
};
use crate::invariant::{money_is_conserved, spend_within_cap};
use crate::money::{Money, Usage};
use crate::time::{Now, Timestamp};
use crate::vocabulary::Tier;
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;
use std::time::Duration;

const DAYS: u64 = 3;
const HOUR: u64 = 3_600;
/// Caps by key, team and tier; the hour of a team and the month of a key are reached most often.
const CAPS: [(BudgetOwner, BudgetPeriod, u64); 5] = [
    (BudgetOwner::Key, BudgetPeriod::Hour, 100),
    (BudgetOwner::Key, BudgetPeriod::Month, 180),
    (BudgetOwner::Team, BudgetPeriod::Hour, 130),
    (BudgetOwner::Team, BudgetPeriod::Week, 300),
    (BudgetOwner::Tier, BudgetPeriod::Quarter, 450),
];

/// Callers with an even number have budgets by calendar window; team 0 has none.
fn windows(caller: u64, team: u64) -> WindowCaps {
    let mut caps = [PeriodCaps::NONE; 3];
    for (owner, period, cap) in CAPS {
        if caller.is_multiple_of(2) && (owner != BudgetOwner::Team || team > 0) {
            caps[owner.index()].set(period, nanos(cap));
        }
    }
    WindowCaps { offset: CalendarOffset { minutes: 330 }, team, caps }
}

#[derive(Clone, Debug)]
enum Step {
    Reserve {
        caller: u64,
        session: Option<u64>,
        input: u64,
        output: u64,
        max_cost: u64,
        lasts: u64,
        team: u64,
    },
    Post {
        which: Index,
        input: u64,
        output: u64,
        cost: u64,
    },
    Void(Index),
    /// An operator corrects a posted cost.
    Correct {
        which: Index,
        cost: u64,
    },
    Expire,
    Wait(u64),
    /// The wall clock is set to another day, forward or back.
    SetDay(u64),
    /// The process crashes and the ledger is rebuilt from its journal.
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let tokens = (0..60_u64, 0..30_u64);
    let reserve = (0..6_u64, proptest::option::of(0..3_u64), tokens, 0..120_u64, 1..100_u64, 0..3_u64)
        .prop_map(|(caller, session, (input, output), max_cost, lasts, team)| Step::Reserve {
            caller,
            session,
            input,
            output,
            max_cost,
            lasts,
            team,
        });
    let post = (any::<Index>(), 0..60_u64, 0..30_u64, 0..120_u64)
        .prop_map(|(which, input, output, cost)| Step::Post { which, input, output, cost });
    let step = prop_oneof![
        5 => reserve,
        4 => post,
        1 => any::<Index>().prop_map(Step::Void),
        1 => (any::<Index>(), 0..200_u64).prop_map(|(which, cost)| Step::Correct { which, cost }),
        1 => Just(Step::Expire),
        2 => prop_oneof![4 => 0..60_u64, 1 => Just(HOUR), 1 => Just(DAY)].prop_map(Step::Wait),
        1 => (0..DAYS).prop_map(Step::SetDay),
        1 => Just(Step::Crash),
    ];
    vec(step, 1..60)
}

/// How a reservation ended: its usage and cost.
#[derive(Clone, Copy, Debug)]
struct Ended {
    input: u64,
    output: u64,
    cost: Money,
    /// The outcome was unknown and the maximum cost was charged.
    is_guess: bool,
}

#[derive(Default)]
struct Model {
    all: Vec<(BudgetReservation, Option<Ended>)>,
}

fn tier_of(caller: u64) -> Tier {
    Tier::ALL[usize::try_from(caller % 3).unwrap()]
}

impl Model {
    fn account(&self, of: impl Fn(&BudgetReservation) -> bool) -> BudgetAccount {
        let mut account = BudgetAccount::default();
        for (reservation, ended) in self.all.iter().filter(|(reservation, _)| of(reservation)) {
            match ended {
                None => account.held = account.held.saturating_add(reservation.max_cost),
                Some(ended) => account.posted = account.posted.saturating_add(ended.cost),
            }
        }
        account
    }

    /// Input and output tokens of a session: used, and held.
    fn session(&self, session: u64) -> [u64; 4] {
        let mut sums = [0; 4];
        for (reservation, ended) in self.all.iter().filter(|(one, _)| one.session == Some(session)) {
            match ended {
                None => {
                    sums[2] += reservation.input;
                    sums[3] += reservation.output;
                }
                Some(ended) => {
                    sums[0] += ended.input;
                    sums[1] += ended.output;
                }
            }
        }
        sums
    }

    /// The account of a budget in the window of this hour, by going through all reservations.
    fn window(&self, owner: BudgetOwner, period: BudgetPeriod, id: u64, hour: CalendarHour) -> BudgetAccount {
        let window = period.window(hour);
        self.account(|one| {
            let (_, made, team) = one.windows.to_parts();
            let is_charged = windows(one.caller, team).caps[owner.index()].get(period).is_some()
                && !one.windows.is_empty();
            let is_owner = match owner {
                BudgetOwner::Key => one.caller == id,
                BudgetOwner::Team => team == id,
                BudgetOwner::Tier => one.tier.index() as u64 == id,
            };
            is_charged && is_owner && window.contains(&CalendarHour(made))
        })
    }

    fn fits_windows(&self, ask: &ReservationRequest, now: Now) -> bool {
        let hour = ask.windows.offset.hour(now.utc);
        ask.windows.iter().all(|(BudgetName { owner, period }, cap)| {
            let id = match owner {
                BudgetOwner::Key => ask.caller,
                BudgetOwner::Team => ask.windows.team,
                BudgetOwner::Tier => ask.tier.index() as u64,
            };
            let committed = self.window(owner, period, id, hour).committed();
            ask.max_cost == Money::ZERO || committed.saturating_add(ask.max_cost) <= cap
        })
    }

    fn fits(&self, ask: &ReservationRequest, now: Now) -> bool {
        let day = now.utc.day();
        // A request of zero cost fits even into a debt.
        let room = |account: BudgetAccount, cap: u64| {
            ask.max_cost == Money::ZERO || account.committed().saturating_add(ask.max_cost) <= nanos(cap)
        };
        let enough = |used: u64, wanted: u64, limit: u64| wanted == 0 || used + wanted <= limit;
        let in_session = |session| {
            let [input, output, input_held, output_held] = self.session(session);
            enough(input + input_held, ask.input, 100) && enough(output + output_held, ask.output, 50)
        };
        let tier_cap = [500, 350, 150][ask.tier.index()];
        ask.session.is_none_or(in_session)
            && self.fits_windows(ask, now)
            && room(self.account(|one| one.day == day && one.caller == ask.caller), 150)
            && room(self.account(|one| one.day == day && one.tier == ask.tier), tier_cap)
            && room(self.account(|one| one.day == day), 1_000)
    }

    /// Settles a reservation; returns whether this was the first settlement.
    fn end(&mut self, place: usize, ended: Ended) -> bool {
        let known = &mut self.all[place].1;
        let is_news = known.is_none_or(|known| known.is_guess);
        if is_news {
            *known = Some(ended);
        }
        is_news
    }

    fn charge_worst(&mut self, of: impl Fn(&BudgetReservation) -> bool) {
        for (reservation, ended) in self.all.iter_mut().filter(|(one, _)| of(one)) {
            ended.get_or_insert(Ended {
                input: reservation.input,
                output: reservation.output,
                cost: reservation.max_cost,
                is_guess: true,
            });
        }
    }
}

/// The ledger, its journal and the reference model.
struct Trial {
    ledger: BudgetLedger,
    journal: Vec<BudgetEntry>,
    model: Model,
    is_corrected: bool,
    now: Now,
}

impl Trial {
    fn new() -> Self {
        Self {
            ledger: small_ledger(),
            journal: Vec::new(),
            model: Model::default(),
            is_corrected: false,
            now: at(0),
        }
    }

    fn apply(&mut self, entry: BudgetEntry) -> ApplyDecision {
        self.journal.push(entry);
        self.ledger.apply(&entry)
    }

    fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Reserve { caller, session, input, output, max_cost, lasts, team } => {
                let expires = self.now.monotonic + Duration::from_secs(lasts);
                let ask = ReservationRequest {
                    session,
                    input,
                    output,
                    expires,
                    windows: windows(caller, team),
                    ..ask(caller, tier_of(caller), max_cost)
                };
                let decided = self.ledger.decide(&ask, self.now);
                // Corrections name a day, so that windows of hours and teams are not corrected.
                if !self.is_corrected || ask.windows.is_empty() {
                    prop_assert_eq!(decided.is_ok(), self.model.fits(&ask, self.now), "{:?}", decided);
                }
                if let Ok(entry @ BudgetEntry::Reserved(reservation)) = decided {
                    self.model.all.push((reservation, None));
                    prop_assert_eq!(self.apply(entry), ApplyDecision::Applied);
                }
            }
            Step::Post { which, input, output, cost } if !self.model.all.is_empty() => {
                let place = which.index(self.model.all.len());
                let id = self.model.all[place].0.id;
                let usage = Usage { input, output, ..Usage::default() };
                let done = self.apply(BudgetEntry::Posted { id, usage, cost: nanos(cost) });
                let truth = Ended { input, output, cost: nanos(cost), is_guess: false };
                prop_assert_eq!(done != ApplyDecision::Unchanged, self.model.end(place, truth));
            }
            Step::Void(which) if !self.model.all.is_empty() => {
                let place = which.index(self.model.all.len());
                let done = self.apply(BudgetEntry::Voided(self.model.all[place].0.id));
                let truth = Ended { input: 0, output: 0, cost: Money::ZERO, is_guess: false };
                prop_assert_eq!(done != ApplyDecision::Unchanged, self.model.end(place, truth));
            }
            Step::Correct { which, cost } if !self.model.all.is_empty() => {
                let place = which.index(self.model.all.len());
                let (one, ended) = self.model.all[place];
                if let Some(known) = ended.filter(|ended| !ended.is_guess) {
                    let cost = nanos(cost);
                    let BudgetReservation { day, caller, tier, .. } = one;
                    let correction = Correction { day, caller, tier, charged: known.cost, cost };
                    let decided = self.ledger.decide_correction(&correction);
                    prop_assert_eq!(self.apply(decided.unwrap()), ApplyDecision::Applied);
                    prop_assert_eq!(self.apply(decided.unwrap()), ApplyDecision::Unchanged);
                    self.model.all[place].1 = Some(Ended { cost, ..known });
                    self.is_corrected = true;
                }
            }
            Step::Post { .. } | Step::Void(_) | Step::Correct { .. } => {}
            Step::Expire => {
                let now = self.now.monotonic;
                self.journal.extend(self.ledger.expire(now).into_iter().map(|(entry, _)| entry));
                self.model.charge_worst(|one| one.expires <= now);
            }
            Step::Wait(seconds) => {
                // Stays within the retention of days; eviction is tested elsewhere.
                let later = self.now + Duration::from_secs(seconds);
                if later.monotonic < at(2 * DAY).monotonic {
                    self.now = later;
                }
            }
            Step::SetDay(day) => {
                self.now = Now::new(self.now.monotonic, at(day * DAY).utc);
            }
            Step::Crash => {
                self.ledger = replayed(&self.journal);
                self.journal.extend(self.ledger.recover().into_iter().map(|(entry, _)| entry));
                self.model.charge_worst(|_| true);
            }
        }
        Ok(())
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        for day in 0..=DAYS + 2 {
            let all = self.model.account(|one| one.day == day);
            prop_assert_eq!(self.ledger.all(day), all);
            for tier in Tier::ALL {
                let of_tier = self.model.account(|one| one.day == day && one.tier == tier);
                prop_assert_eq!(self.ledger.tier(day, tier), of_tier);
            }
            for caller in 0..6 {
                let of_caller = self.model.account(|one| one.day == day && one.caller == caller);
                prop_assert_eq!(self.ledger.caller(day, caller), of_caller);
            }
            let reserved =
                self.model.all.iter().filter(|(one, _)| one.day == day).map(|(one, _)| one.max_cost).sum();
            let ended =
                |(one, ended): &&(BudgetReservation, Option<Ended>)| one.day == day && ended.is_some();
            let released = self.model.all.iter().filter(ended).map(|(one, _)| one.max_cost).sum();
            prop_assert_eq!(money_is_conserved(reserved, released, self.ledger.all(day).held), Ok(()));
            // Cost above the maximum cost is billed by the vendor and cannot be refused.
            let overrun = self
                .model
                .all
                .iter()
                .filter(ended)
                .filter_map(|(one, ended)| ended.map(|it| it.cost.saturating_sub(one.max_cost)))
                .sum();
            let reported_overrun = Tier::ALL.into_iter().map(|tier| self.ledger.overrun(day, tier)).sum();
            if !self.is_corrected {
                prop_assert_eq!(reported_overrun, overrun);
            }
            let totals = self.ledger.all(day);
            prop_assert_eq!(
                spend_within_cap(totals.posted, totals.held, reported_overrun, small().day_cap(day)),
                Ok(())
            );
        }
        let hour = CalendarOffset { minutes: 330 }.hour(self.now.utc);
        for (owner, period, _) in CAPS.into_iter().filter(|_| !self.is_corrected) {
            for id in 0..6 {
                let name = BudgetName { owner, period };
                let expected = self.model.window(owner, period, id, hour);
                prop_assert_eq!(self.ledger.window(name, id, hour), expected, "{:?} {}", name, id);
            }
        }
        for session in 0..3 {
            let SessionTokens { input, output, input_held, output_held } = self.ledger.session(session);
            prop_assert_eq!([input, output, input_held, output_held], self.model.session(session));
        }
        let open = self.model.all.iter().filter(|(_, ended)| ended.is_none()).count();
        prop_assert_eq!(self.ledger.open(), open);
        Ok(())
    }
}

fn replayed(journal: &[BudgetEntry]) -> BudgetLedger {
    let mut ledger = small_ledger();
    for entry in journal {
        let _ = ledger.apply(entry);
    }
    ledger
}

proptest! {
    #[test]
    fn money_is_conserved_under_any_interleaving_of_reserve_post_void_expire_and_crash(steps in steps()) {
        let mut trial = Trial::new();
        for step in &steps {
            trial.take(step)?;
            trial.compare()?;
        }
    }

    #[test]
    fn a_truncated_journal_never_books_less_than_was_spent(steps in steps(), cut in any::<Index>()) {
        let mut trial = Trial::new();
        // A lost correction is assumed to be entered again by the operator.
        for step in steps.iter().filter(|step| !matches!(step, Step::Correct { .. })) {
            trial.take(step)?;
        }
        let kept = &trial.journal[..cut.index(trial.journal.len() + 1)];
        let mut ledger = replayed(kept);
        ledger.recover();
        let known = |one: &BudgetReservation| kept.contains(&BudgetEntry::Reserved(*one));
        // Bills above the maximum cost cannot be foreseen and are excluded.
        let billed: Money = trial.model.all.iter()
            .filter(|(one, _)| known(one))
            .filter_map(|(one, ended)| ended.map(|it| it.cost.min(one.max_cost)))
            .sum();
        let days = || (0..=DAYS + 2).map(|day| ledger.all(day));
        prop_assert!(days().map(|all| all.posted).sum::<Money>() >= billed);
        prop_assert_eq!((days().map(|all| all.held).sum::<Money>(), ledger.open()), (Money::ZERO, 0));
    }

    #[test]
    fn a_journal_may_be_applied_twice(steps in steps()) {
        let mut trial = Trial::new();
        for step in &steps {
            trial.take(step)?;
        }
        for entry in &trial.journal {
            prop_assert_eq!(trial.ledger.apply(entry), ApplyDecision::Unchanged);
        }
        trial.compare()?;
        prop_assert!(trial.ledger.expire(Timestamp::NEVER).len() == trial.model.all.iter().filter(|(_, ended)| ended.is_none()).count());
    }
}
