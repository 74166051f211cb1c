use super::super::{
    AloneReason, Asker, CacheKey, FlightDecision, FlightKey, FlightOptions, Flights, KeyParts,
    LandingDecision, LeaderEnd, Question, WaitDecision,
};
use crate::deadline::Deadline;
use crate::time::Timestamp;
use crate::vocabulary::{Grade, Intent};
use proptest::collection::vec;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use std::time::Duration;

const PARTS: KeyParts<'static> =
    KeyParts { route: "chat", locale: "ja", prompt_version: "1", catalogue_version: "1" };

fn public(number: u64) -> FlightKey {
    let text = format!("question {number}");
    let question = Question { intent: Intent::Faq, text: &text, history: "", uses_account: false };
    FlightKey { key: CacheKey::of(&question, "", &PARTS).unwrap(), grade: Grade::Strong }
}

fn private(caller: &str) -> FlightKey {
    let question = Question { intent: Intent::Order, text: "where", history: "", uses_account: false };
    FlightKey { key: CacheKey::of(&question, caller, &PARTS).unwrap(), grade: Grade::Strong }
}

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(millis)
}

fn flights(options: FlightOptions) -> Flights {
    options.check().unwrap()
}

fn ask(flights: &mut Flights, key: &FlightKey, asker: u64, now: Timestamp) -> FlightDecision {
    flights.ask(key, Asker(asker), Deadline::after(now, Duration::from_secs(3)), now)
}

#[test]
fn five_hundred_equal_questions_in_a_second_are_one_call() {
    let (mut flights, key) = (flights(FlightOptions::default()), public(1));
    let mut calls = 0;
    for asker in 0..500 {
        match ask(&mut flights, &key, asker, at(asker * 2)) {
            FlightDecision::Lead => calls += 1,
            FlightDecision::Wait { until } => assert_eq!(until, at(asker * 2 + 1_800)),
            FlightDecision::Alone(reason) => panic!("{reason:?}"),
        }
    }
    assert_eq!((calls, flights.waiting(), flights.len(), flights.is_empty()), (1, 499, 1, false));
    let served = flights.end(&key, Asker(0), LeaderEnd::Answered, at(1_200));
    assert_eq!(served, LandingDecision::Share((1..500).map(Asker).collect()));
    assert!(flights.is_empty() && flights.waiting() == 0);
}

#[test]
fn private_questions_of_two_callers_never_wait_for_each_other() {
    let mut flights = flights(FlightOptions::default());
    assert_eq!(ask(&mut flights, &private("ann"), 1, at(0)), FlightDecision::Lead);
    assert_eq!(ask(&mut flights, &private("bob"), 2, at(0)), FlightDecision::Lead);
    assert_eq!(flights.end(&private("ann"), Asker(1), LeaderEnd::Answered, at(1)), LandingDecision::Nobody);
    assert_eq!(flights.len(), 1);
}

#[test]
fn who_may_have_the_strong_model_does_not_wait_for_the_fast_one() {
    let mut flights = flights(FlightOptions::default());
    let fast = FlightKey { grade: Grade::Fast, ..public(1) };
    assert_eq!(ask(&mut flights, &fast, 1, at(0)), FlightDecision::Lead);
    assert_eq!(ask(&mut flights, &public(1), 2, at(0)), FlightDecision::Lead);
    assert!(matches!(ask(&mut flights, &public(1), 3, at(0)), FlightDecision::Wait { .. }));
    assert_eq!(flights.end(&fast, Asker(1), LeaderEnd::Answered, at(1)), LandingDecision::Nobody);
    assert_eq!(flights.waiting(), 1);
}

#[test]
fn a_leader_that_fails_is_followed_by_one_and_then_by_none() {
    let (mut flights, key) = (flights(FlightOptions::default()), public(1));
    for asker in 1..=4 {
        ask(&mut flights, &key, asker, at(0));
    }
    let end = |flights: &mut Flights, asker, how| flights.end(&key, Asker(asker), how, at(1));
    assert_eq!(end(&mut flights, 1, LeaderEnd::Failed), LandingDecision::Promote(Asker(2)));
    assert_eq!(end(&mut flights, 1, LeaderEnd::Failed), LandingDecision::NotLeading);
    assert_eq!(end(&mut flights, 2, LeaderEnd::Failed), LandingDecision::Release(vec![Asker(3), Asker(4)]));
    assert_eq!(end(&mut flights, 2, LeaderEnd::Failed), LandingDecision::NotLeading);
    assert!(flights.is_empty());
}

#[test]
fn a_leader_that_leaves_is_always_followed() {
    let (mut flights, key) = (flights(FlightOptions::default()), public(1));
    for asker in 1..=4 {
        ask(&mut flights, &key, asker, at(0));
    }
    for asker in 1..=3 {
        let landing = flights.end(&key, Asker(asker), LeaderEnd::Left, at(1));
        assert_eq!(landing, LandingDecision::Promote(Asker(asker + 1)));
    }
    assert_eq!(flights.end(&key, Asker(4), LeaderEnd::Left, at(1)), LandingDecision::Nobody);
}

#[test]
fn who_may_not_wait_any_more_does_not_lead() {
    let (mut flights, key) = (flights(FlightOptions::default()), public(1));
    ask(&mut flights, &key, 1, at(0));
    ask(&mut flights, &key, 2, at(0));
    ask(&mut flights, &key, 3, at(1));
    // The second waiter times out at this very moment, the third a millisecond later.
    let landing = flights.end(&key, Asker(1), LeaderEnd::Failed, at(1_800));
    assert_eq!(landing, LandingDecision::Promote(Asker(3)));
    assert_eq!(
        flights.end(&key, Asker(3), LeaderEnd::Left, at(1_801)),
        LandingDecision::Release(vec![Asker(2)])
    );
}

#[test]
fn after_waiting_in_vain_a_few_ask_and_the_others_take_the_next_rung() {
    let (mut flights, key) = (flights(FlightOptions::default()), public(1));
    for asker in 0..=6 {
        ask(&mut flights, &key, asker, at(0));
    }
    let until = at(1_800);
    let early = flights.stop_waiting(&key, Asker(1), Timestamp::from_nanos(until.as_nanos() - 1));
    assert_eq!(early, WaitDecision::GoOnWaiting { until });
    let decisions: Vec<_> = (1..=6).map(|asker| flights.stop_waiting(&key, Asker(asker), until)).collect();
    assert_eq!(decisions[..4], [WaitDecision::Alone; 4]);
    assert_eq!(decisions[4..], [WaitDecision::NextRung; 2]);
    assert_eq!(flights.waiting(), 0);
    // Unknown requests, and those that have already timed out, take the next rung as well.
    assert_eq!(flights.stop_waiting(&key, Asker(1), until), WaitDecision::NextRung);
    assert_eq!(flights.stop_waiting(&public(2), Asker(1), until), WaitDecision::NextRung);
}

#[test]
fn a_wait_is_a_share_of_the_time_left_and_has_an_end() {
    let wait = |left: Deadline| {
        let (mut flights, key) = (flights(FlightOptions::default()), public(1));
        flights.ask(&key, Asker(1), left, at(0));
        flights.ask(&key, Asker(2), left, at(0))
    };
    let until = |millis| FlightDecision::Wait { until: at(millis) };
    assert_eq!(wait(Deadline::at(at(1_000))), until(600));
    assert_eq!(wait(Deadline::at(at(33_330))), until(19_998));
    assert_eq!(wait(Deadline::at(at(40_000))), until(20_000));
    assert_eq!(wait(Deadline::NEVER), until(20_000));
    assert_eq!(wait(Deadline::at(at(0))), until(0));
}

#[test]
fn a_leader_that_says_nothing_loses_the_lead_to_the_next_who_asks() {
    let (mut flights, key) = (flights(FlightOptions::default()), public(1));
    ask(&mut flights, &key, 1, at(0));
    ask(&mut flights, &key, 2, at(119_999));
    assert_eq!(ask(&mut flights, &key, 3, at(120_000)), FlightDecision::Lead);
    assert_eq!(flights.end(&key, Asker(1), LeaderEnd::Answered, at(120_001)), LandingDecision::NotLeading);
    let landing = flights.end(&key, Asker(3), LeaderEnd::Answered, at(120_001));
    assert_eq!(landing, LandingDecision::Share(vec![Asker(2)]));
}

#[test]
fn asking_twice_changes_nothing_and_leaving_frees_a_place() {
    let (mut flights, key) = (flights(FlightOptions::default()), public(1));
    ask(&mut flights, &key, 1, at(0));
    let first = ask(&mut flights, &key, 2, at(0));
    assert_eq!(ask(&mut flights, &key, 1, at(5)), FlightDecision::Lead);
    assert_eq!(ask(&mut flights, &key, 2, at(5)), first);
    assert_eq!(flights.waiting(), 1);
    assert_eq!(flights.leave(&key, Asker(2), at(5)), LandingDecision::NotLeading);
    assert_eq!(flights.leave(&key, Asker(2), at(5)), LandingDecision::NotLeading);
    assert_eq!(flights.leave(&public(2), Asker(2), at(5)), LandingDecision::NotLeading);
    assert_eq!((flights.waiting(), flights.len()), (0, 1));
    assert_eq!(flights.leave(&key, Asker(1), at(5)), LandingDecision::Nobody);
    assert!(flights.is_empty());
}

#[test]
fn who_was_made_leader_and_has_left_does_not_lead() {
    let (mut flights, key) = (flights(FlightOptions::default()), public(1));
    for asker in 1..=3 {
        ask(&mut flights, &key, asker, at(0));
    }
    let landing = flights.end(&key, Asker(1), LeaderEnd::Failed, at(1));
    assert_eq!(landing, LandingDecision::Promote(Asker(2)));
    // Its caller disconnects before it learns of the promotion. Leaving does not count as a failure.
    assert_eq!(flights.leave(&key, Asker(2), at(2)), LandingDecision::Promote(Asker(3)));
    assert_eq!(flights.leave(&key, Asker(3), at(3)), LandingDecision::Nobody);
    assert_eq!(ask(&mut flights, &key, 4, at(4)), FlightDecision::Lead);
}

#[test]
fn who_was_made_leader_is_told_so_when_its_timer_rings() {
    let (mut flights, key) = (flights(FlightOptions::default()), public(1));
    ask(&mut flights, &key, 1, at(0));
    ask(&mut flights, &key, 2, at(0));
    let landing = flights.end(&key, Asker(1), LeaderEnd::Failed, at(1_799));
    assert_eq!(landing, LandingDecision::Promote(Asker(2)));
    for _ in 0..2 {
        assert_eq!(flights.stop_waiting(&key, Asker(2), at(1_800)), WaitDecision::Lead);
    }
    assert_eq!(flights.stop_waiting(&key, Asker(1), at(1_800)), WaitDecision::NextRung);
    assert_eq!(flights.end(&key, Asker(2), LeaderEnd::Answered, at(2_000)), LandingDecision::Nobody);
}

#[test]
fn who_has_no_time_left_takes_no_place_among_those_who_ask_alone() {
    let (mut flights, key) = (flights(FlightOptions::default()), public(1));
    ask(&mut flights, &key, 0, at(0));
    for asker in 1..=20 {
        flights.ask(&key, Asker(asker), Deadline::at(at(0)), at(0));
        assert_eq!(flights.stop_waiting(&key, Asker(asker), at(0)), WaitDecision::NextRung);
    }
    // A late timer has the same result, at the deadline and not before it.
    ask(&mut flights, &key, 21, at(0));
    ask(&mut flights, &key, 22, at(0));
    assert_eq!(flights.stop_waiting(&key, Asker(21), at(2_999)), WaitDecision::Alone);
    assert_eq!(flights.stop_waiting(&key, Asker(22), at(3_000)), WaitDecision::NextRung);
    assert_eq!(flights.waiting(), 0);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "what it measures is time")]
fn a_hundred_thousand_who_wait_for_one_key_are_not_searched_one_by_one() {
    let options = FlightOptions { most_waiters: 100_000, ..FlightOptions::default() };
    let (mut flights, key) = (flights(options), public(1));
    let start = std::time::Instant::now();
    for asker in 0..100_000 {
        ask(&mut flights, &key, asker, at(0));
    }
    for asker in (1..100_000).rev() {
        assert_ne!(flights.stop_waiting(&key, Asker(asker), at(2_000)), WaitDecision::Lead);
    }
    // A linear list would need ten thousand million steps; this takes a tenth of a second.
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert_eq!(flights.waiting(), 0);
}

#[test]
fn beyond_the_bounds_everybody_goes_alone() {
    let options = FlightOptions { most_flights: 2, most_waiters: 1, ..FlightOptions::default() };
    let mut flights = flights(options);
    for number in 1..=2 {
        assert_eq!(ask(&mut flights, &public(number), number, at(0)), FlightDecision::Lead);
    }
    let full = FlightDecision::Alone(AloneReason::TooManyFlights);
    assert_eq!(ask(&mut flights, &public(3), 3, at(0)), full);
    assert!(matches!(ask(&mut flights, &public(1), 4, at(0)), FlightDecision::Wait { .. }));
    let crowded = FlightDecision::Alone(AloneReason::TooManyWaiters);
    assert_eq!(ask(&mut flights, &public(2), 5, at(0)), crowded);
    // Flights of lost leaders are removed, and their waiters no longer count.
    assert_eq!(ask(&mut flights, &public(3), 6, at(119_999)), full);
    assert_eq!(ask(&mut flights, &public(3), 6, at(120_998)), full);
    assert_eq!(ask(&mut flights, &public(3), 6, at(120_999)), FlightDecision::Lead);
    assert_eq!((flights.len(), flights.waiting()), (1, 0));
}

#[test]
fn a_lost_leader_is_kept_while_somebody_may_still_wait() {
    let mut flights = flights(FlightOptions { most_flights: 1, ..FlightOptions::default() });
    ask(&mut flights, &public(1), 1, at(0));
    ask(&mut flights, &public(1), 2, at(119_000));
    let full = FlightDecision::Alone(AloneReason::TooManyFlights);
    assert_eq!(ask(&mut flights, &public(2), 3, at(120_799)), full);
    assert_eq!(ask(&mut flights, &public(2), 3, at(121_799)), FlightDecision::Lead);
}

#[test]
fn options_that_make_no_sense_are_refused_by_name() {
    let base = FlightOptions::default();
    for (options, setting) in [
        (FlightOptions { wait_percent: 0.0, ..base }, "wait_percent"),
        (FlightOptions { wait_percent: f64::NAN, ..base }, "wait_percent"),
        (FlightOptions { most_wait: Duration::ZERO, ..base }, "most_wait"),
        (FlightOptions { most_lead: Duration::ZERO, ..base }, "most_lead"),
        (FlightOptions { most_flights: 0, ..base }, "most_flights"),
        (FlightOptions { most_waiters: 0, ..base }, "most_waiters"),
    ] {
        assert_eq!(options.check().unwrap_err().setting(), setting);
    }
    assert_eq!((base.most_flights, base.most_waiters), (10_000, 10_000));
}

fn place(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// Role of a request in the reference model.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    Leads { until: u64 },
    Waits { until: u64 },
}

/// Reference model: one list, searched each time.
#[derive(Default)]
struct Slow {
    askers: Vec<(u64, u64, Role)>,
    /// Deadline of each request, by number.
    deadlines: Vec<u64>,
    promotions: [u32; 3],
    alone: [u32; 3],
}

impl Slow {
    fn leader(&self, key: u64) -> Option<(u64, u64)> {
        self.askers.iter().find_map(|(of, asker, role)| match role {
            Role::Leads { until } if *of == key => Some((*asker, *until)),
            _ => None,
        })
    }

    fn waiters(&self, key: u64) -> Vec<(u64, u64)> {
        let waits = |(of, asker, role): &(u64, u64, Role)| match role {
            Role::Waits { until } if *of == key => Some((*asker, *until)),
            _ => None,
        };
        self.askers.iter().filter_map(waits).collect()
    }

    fn drop_asker(&mut self, key: u64, gone: u64) {
        self.askers.retain(|(of, asker, _)| (*of, *asker) != (key, gone));
    }

    fn ask(&mut self, key: u64, asker: u64, left: u64, now: u64) -> FlightDecision {
        self.deadlines.resize(place(asker) + 1, now + left);
        match self.leader(key) {
            Some((leader, until)) if now >= until => {
                self.drop_asker(key, leader);
                self.askers.push((key, asker, Role::Leads { until: now + 2_000 }));
                FlightDecision::Lead
            }
            Some(_) if (0..3).map(|key| self.waiters(key).len()).sum::<usize>() >= 5 => {
                FlightDecision::Alone(AloneReason::TooManyWaiters)
            }
            Some(_) => {
                let until = now + (left * 60 / 100).min(20_000);
                self.askers.push((key, asker, Role::Waits { until }));
                FlightDecision::Wait { until: at(until) }
            }
            None => {
                (self.promotions[place(key)], self.alone[place(key)]) = (0, 0);
                self.askers.push((key, asker, Role::Leads { until: now + 2_000 }));
                FlightDecision::Lead
            }
        }
    }

    fn end(&mut self, key: u64, leader: u64, how: LeaderEnd, now: u64) -> LandingDecision {
        if self.leader(key).map(|(leader, _)| leader) != Some(leader) {
            return LandingDecision::NotLeading;
        }
        self.drop_asker(key, leader);
        let waiters = self.waiters(key);
        let in_time = waiters.iter().find(|(_, until)| now < *until).copied();
        let promotions = &mut self.promotions[place(key)];
        let next = match how {
            LeaderEnd::Answered => None,
            LeaderEnd::Failed if *promotions == 1 => None,
            LeaderEnd::Failed | LeaderEnd::Left => in_time,
        };
        if let Some((next, _)) = next {
            *promotions += u32::from(how == LeaderEnd::Failed);
            self.drop_asker(key, next);
            self.askers.push((key, next, Role::Leads { until: now + 2_000 }));
            return LandingDecision::Promote(Asker(next));
        }
        self.askers.retain(|(of, ..)| *of != key);
        let all: Vec<_> = waiters.into_iter().map(|(waiter, _)| Asker(waiter)).collect();
        match how {
            _ if all.is_empty() => LandingDecision::Nobody,
            LeaderEnd::Answered => LandingDecision::Share(all),
            _ => LandingDecision::Release(all),
        }
    }

    fn stop_waiting(&mut self, key: u64, asker: u64, now: u64) -> WaitDecision {
        match self.waiters(key).into_iter().find(|(waiter, _)| *waiter == asker) {
            None if self.leader(key).is_some_and(|(leader, _)| leader == asker) => WaitDecision::Lead,
            None => WaitDecision::NextRung,
            Some((_, until)) if now < until => WaitDecision::GoOnWaiting { until: at(until) },
            Some(_) if now >= self.deadlines[place(asker)] => {
                self.drop_asker(key, asker);
                WaitDecision::NextRung
            }
            Some(_) => {
                self.drop_asker(key, asker);
                self.alone[place(key)] += 1;
                if self.alone[place(key)] <= 2 { WaitDecision::Alone } else { WaitDecision::NextRung }
            }
        }
    }
}

proptest! {
    #[test]
    fn the_table_equals_a_list_of_everybody(
        steps in vec((0..6_u8, 0..3_u64, 0..40_u64, 0..4_000_u64), 1..120),
    ) {
        let options =
            FlightOptions { most_waiters: 5, most_alone: 2, most_lead: Duration::from_secs(2), ..FlightOptions::default() };
        let (mut flights, mut slow) = (flights(options), Slow::default());
        let (mut now, mut newest) = (0, 0);
        for (step, key, back, passed) in steps {
            now += passed / 4;
            let name = public(key);
            // A recent request; mostly one that is still waiting or leading.
            let somebody = slow.leader(key).map_or(0, |(leader, _)| leader);
            let waiter = slow.waiters(key).get(place(back) % 3).map_or(back, |(waiter, _)| *waiter);
            let left = Deadline::after(at(now), Duration::from_millis(passed * 5));
            match step {
                0..=2 => {
                    newest += 1;
                    let decision = flights.ask(&name, Asker(newest), left, at(now));
                    prop_assert_eq!(decision, slow.ask(key, newest, passed * 5, now));
                }
                3 => {
                    let how = [LeaderEnd::Answered, LeaderEnd::Failed, LeaderEnd::Left][place(back) % 3];
                    let who = if back < 35 { somebody } else { back };
                    let landing = flights.end(&name, Asker(who), how, at(now));
                    prop_assert_eq!(landing, slow.end(key, who, how, now));
                }
                4 => {
                    let who = if back < 30 { waiter } else { somebody };
                    let decision = flights.stop_waiting(&name, Asker(who), at(now));
                    prop_assert_eq!(decision, slow.stop_waiting(key, who, now));
                }
                _ => {
                    let who = if back < 30 { waiter } else { somebody };
                    let landing = flights.leave(&name, Asker(who), at(now));
                    let expected = slow.end(key, who, LeaderEnd::Left, now);
                    slow.drop_asker(key, who);
                    prop_assert_eq!(landing, expected);
                }
            }
            let waiting: usize = (0..3).map(|key| slow.waiters(key).len()).sum();
            let leading = (0..3).filter(|key| slow.leader(*key).is_some()).count();
            prop_assert_eq!((flights.len(), flights.waiting()), (leading, waiting));
            prop_assert!(flights.len() <= 3 && flights.waiting() <= 5);
        }
    }
}
