use super::super::{
    CacheKey, KeyParts, LeaderOutcome, ParticipantId, Question, SingleFlightDecision, SingleFlightKey,
    SingleFlightOptions, SingleFlightTable, UnsharedReason, WaitTimeoutDecision, WaitersDecision,
};
use crate::deadline::Deadline;
use crate::time::Timestamp;
use crate::vocabulary::Grade;
use proptest::collection::vec;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use std::time::Duration;

const PARTS: KeyParts<'static> =
    KeyParts { route: "chat", locale: "ja", prompt_version: "1", catalogue_version: "1" };

fn public(number: u64) -> SingleFlightKey {
    let text = format!("question {number}");
    let question =
        Question { intent: "faq", is_context_free: true, text: &text, history: "", uses_account: false };
    SingleFlightKey { key: CacheKey::of(&question, "", &PARTS).unwrap(), grade: Grade::Strong }
}

fn private(caller: &str) -> SingleFlightKey {
    let question =
        Question { intent: "order", is_context_free: false, text: "where", history: "", uses_account: false };
    SingleFlightKey { key: CacheKey::of(&question, caller, &PARTS).unwrap(), grade: Grade::Strong }
}

fn at(millis: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_millis(millis)
}

fn flights(options: SingleFlightOptions) -> SingleFlightTable {
    options.check().unwrap()
}

fn ask(
    flights: &mut SingleFlightTable,
    key: &SingleFlightKey,
    participant: u64,
    now: Timestamp,
) -> SingleFlightDecision {
    flights.join(key, ParticipantId(participant), Deadline::after(now, Duration::from_secs(3)), now)
}

#[test]
fn five_hundred_equal_questions_in_a_second_are_one_call() {
    let (mut flights, key) = (flights(SingleFlightOptions::default()), public(1));
    let mut calls = 0;
    for participant in 0..500 {
        match ask(&mut flights, &key, participant, at(participant * 2)) {
            SingleFlightDecision::Lead => calls += 1,
            SingleFlightDecision::Wait { until } => assert_eq!(until, at(participant * 2 + 1_800)),
            SingleFlightDecision::Unshared(reason) => panic!("{reason:?}"),
        }
    }
    assert_eq!((calls, flights.waiting(), flights.len(), flights.is_empty()), (1, 499, 1, false));
    let served = flights.finish(&key, ParticipantId(0), LeaderOutcome::Answered, at(1_200));
    assert_eq!(served, WaitersDecision::Share((1..500).map(ParticipantId).collect()));
    assert!(flights.is_empty() && flights.waiting() == 0);
}

#[test]
fn private_questions_of_two_callers_never_wait_for_each_other() {
    let mut flights = flights(SingleFlightOptions::default());
    assert_eq!(ask(&mut flights, &private("ann"), 1, at(0)), SingleFlightDecision::Lead);
    assert_eq!(ask(&mut flights, &private("bob"), 2, at(0)), SingleFlightDecision::Lead);
    assert_eq!(
        flights.finish(&private("ann"), ParticipantId(1), LeaderOutcome::Answered, at(1)),
        WaitersDecision::NoWaiters
    );
    assert_eq!(flights.len(), 1);
}

#[test]
fn a_request_for_the_strong_model_does_not_wait_for_the_fast_one() {
    let mut flights = flights(SingleFlightOptions::default());
    let fast = SingleFlightKey { grade: Grade::Fast, ..public(1) };
    assert_eq!(ask(&mut flights, &fast, 1, at(0)), SingleFlightDecision::Lead);
    assert_eq!(ask(&mut flights, &public(1), 2, at(0)), SingleFlightDecision::Lead);
    assert!(matches!(ask(&mut flights, &public(1), 3, at(0)), SingleFlightDecision::Wait { .. }));
    assert_eq!(
        flights.finish(&fast, ParticipantId(1), LeaderOutcome::Answered, at(1)),
        WaitersDecision::NoWaiters
    );
    assert_eq!(flights.waiting(), 1);
}

#[test]
fn a_leader_that_fails_is_followed_by_one_and_then_by_none() {
    let (mut flights, key) = (flights(SingleFlightOptions::default()), public(1));
    for participant in 1..=4 {
        ask(&mut flights, &key, participant, at(0));
    }
    let end = |flights: &mut SingleFlightTable, participant, how| {
        flights.finish(&key, ParticipantId(participant), how, at(1))
    };
    assert_eq!(end(&mut flights, 1, LeaderOutcome::Failed), WaitersDecision::Promote(ParticipantId(2)));
    assert_eq!(end(&mut flights, 1, LeaderOutcome::Failed), WaitersDecision::NotLeader);
    assert_eq!(
        end(&mut flights, 2, LeaderOutcome::Failed),
        WaitersDecision::Release(vec![ParticipantId(3), ParticipantId(4)])
    );
    assert_eq!(end(&mut flights, 2, LeaderOutcome::Failed), WaitersDecision::NotLeader);
    assert!(flights.is_empty());
}

#[test]
fn a_leader_that_leaves_is_always_followed() {
    let (mut flights, key) = (flights(SingleFlightOptions::default()), public(1));
    for participant in 1..=4 {
        ask(&mut flights, &key, participant, at(0));
    }
    for participant in 1..=3 {
        let landing = flights.finish(&key, ParticipantId(participant), LeaderOutcome::Disconnected, at(1));
        assert_eq!(landing, WaitersDecision::Promote(ParticipantId(participant + 1)));
    }
    assert_eq!(
        flights.finish(&key, ParticipantId(4), LeaderOutcome::Disconnected, at(1)),
        WaitersDecision::NoWaiters
    );
}

#[test]
fn a_waiter_past_its_wait_is_not_promoted() {
    let (mut flights, key) = (flights(SingleFlightOptions::default()), public(1));
    ask(&mut flights, &key, 1, at(0));
    ask(&mut flights, &key, 2, at(0));
    ask(&mut flights, &key, 3, at(1));
    // The second waiter times out at this very moment, the third a millisecond later.
    let landing = flights.finish(&key, ParticipantId(1), LeaderOutcome::Failed, at(1_800));
    assert_eq!(landing, WaitersDecision::Promote(ParticipantId(3)));
    assert_eq!(
        flights.finish(&key, ParticipantId(3), LeaderOutcome::Disconnected, at(1_801)),
        WaitersDecision::Release(vec![ParticipantId(2)])
    );
}

#[test]
fn after_a_wait_timeout_max_unshared_call_the_model_and_others_take_the_next_rung() {
    let (mut flights, key) = (flights(SingleFlightOptions::default()), public(1));
    for participant in 0..=6 {
        ask(&mut flights, &key, participant, at(0));
    }
    let until = at(1_800);
    let early =
        flights.handle_wait_timeout(&key, ParticipantId(1), Timestamp::from_nanos(until.as_nanos() - 1));
    assert_eq!(early, WaitTimeoutDecision::KeepWaiting { until });
    let decisions: Vec<_> = (1..=6)
        .map(|participant| flights.handle_wait_timeout(&key, ParticipantId(participant), until))
        .collect();
    assert_eq!(decisions[..4], [WaitTimeoutDecision::Unshared; 4]);
    assert_eq!(decisions[4..], [WaitTimeoutDecision::NextRung; 2]);
    assert_eq!(flights.waiting(), 0);
    // Unknown requests, and those that have already timed out, take the next rung as well.
    assert_eq!(flights.handle_wait_timeout(&key, ParticipantId(1), until), WaitTimeoutDecision::NextRung);
    assert_eq!(
        flights.handle_wait_timeout(&public(2), ParticipantId(1), until),
        WaitTimeoutDecision::NextRung
    );
}

#[test]
fn a_wait_is_a_share_of_the_time_left_and_has_an_end() {
    let wait = |left: Deadline| {
        let (mut flights, key) = (flights(SingleFlightOptions::default()), public(1));
        flights.join(&key, ParticipantId(1), left, at(0));
        flights.join(&key, ParticipantId(2), left, at(0))
    };
    let until = |millis| SingleFlightDecision::Wait { until: at(millis) };
    assert_eq!(wait(Deadline::at(at(1_000))), until(600));
    assert_eq!(wait(Deadline::at(at(33_330))), until(19_998));
    assert_eq!(wait(Deadline::at(at(40_000))), until(20_000));
    assert_eq!(wait(Deadline::NEVER), until(20_000));
    assert_eq!(wait(Deadline::at(at(0))), until(0));
}

#[test]
fn a_leader_that_times_out_is_replaced_by_the_next_request() {
    let (mut flights, key) = (flights(SingleFlightOptions::default()), public(1));
    ask(&mut flights, &key, 1, at(0));
    ask(&mut flights, &key, 2, at(119_999));
    assert_eq!(ask(&mut flights, &key, 3, at(120_000)), SingleFlightDecision::Lead);
    assert_eq!(
        flights.finish(&key, ParticipantId(1), LeaderOutcome::Answered, at(120_001)),
        WaitersDecision::NotLeader
    );
    let landing = flights.finish(&key, ParticipantId(3), LeaderOutcome::Answered, at(120_001));
    assert_eq!(landing, WaitersDecision::Share(vec![ParticipantId(2)]));
}

#[test]
fn joining_twice_changes_nothing_and_leaving_frees_a_slot() {
    let (mut flights, key) = (flights(SingleFlightOptions::default()), public(1));
    ask(&mut flights, &key, 1, at(0));
    let first = ask(&mut flights, &key, 2, at(0));
    assert_eq!(ask(&mut flights, &key, 1, at(5)), SingleFlightDecision::Lead);
    assert_eq!(ask(&mut flights, &key, 2, at(5)), first);
    assert_eq!(flights.waiting(), 1);
    assert_eq!(flights.leave(&key, ParticipantId(2), at(5)), WaitersDecision::NotLeader);
    assert_eq!(flights.leave(&key, ParticipantId(2), at(5)), WaitersDecision::NotLeader);
    assert_eq!(flights.leave(&public(2), ParticipantId(2), at(5)), WaitersDecision::NotLeader);
    assert_eq!((flights.waiting(), flights.len()), (0, 1));
    assert_eq!(flights.leave(&key, ParticipantId(1), at(5)), WaitersDecision::NoWaiters);
    assert!(flights.is_empty());
}

#[test]
fn a_promoted_leader_that_left_does_not_lead() {
    let (mut flights, key) = (flights(SingleFlightOptions::default()), public(1));
    for participant in 1..=3 {
        ask(&mut flights, &key, participant, at(0));
    }
    let landing = flights.finish(&key, ParticipantId(1), LeaderOutcome::Failed, at(1));
    assert_eq!(landing, WaitersDecision::Promote(ParticipantId(2)));
    // Its caller disconnects before it learns of the promotion. Leaving does not count as a failure.
    assert_eq!(flights.leave(&key, ParticipantId(2), at(2)), WaitersDecision::Promote(ParticipantId(3)));
    assert_eq!(flights.leave(&key, ParticipantId(3), at(3)), WaitersDecision::NoWaiters);
    assert_eq!(ask(&mut flights, &key, 4, at(4)), SingleFlightDecision::Lead);
}

#[test]
fn a_promoted_waiter_leads_when_its_wait_times_out() {
    let (mut flights, key) = (flights(SingleFlightOptions::default()), public(1));
    ask(&mut flights, &key, 1, at(0));
    ask(&mut flights, &key, 2, at(0));
    let landing = flights.finish(&key, ParticipantId(1), LeaderOutcome::Failed, at(1_799));
    assert_eq!(landing, WaitersDecision::Promote(ParticipantId(2)));
    for _ in 0..2 {
        assert_eq!(flights.handle_wait_timeout(&key, ParticipantId(2), at(1_800)), WaitTimeoutDecision::Lead);
    }
    assert_eq!(flights.handle_wait_timeout(&key, ParticipantId(1), at(1_800)), WaitTimeoutDecision::NextRung);
    assert_eq!(
        flights.finish(&key, ParticipantId(2), LeaderOutcome::Answered, at(2_000)),
        WaitersDecision::NoWaiters
    );
}

#[test]
fn a_waiter_past_its_deadline_uses_no_unshared_call() {
    let (mut flights, key) = (flights(SingleFlightOptions::default()), public(1));
    ask(&mut flights, &key, 0, at(0));
    for participant in 1..=20 {
        flights.join(&key, ParticipantId(participant), Deadline::at(at(0)), at(0));
        assert_eq!(
            flights.handle_wait_timeout(&key, ParticipantId(participant), at(0)),
            WaitTimeoutDecision::NextRung
        );
    }
    // A late timer has the same result, at the deadline and not before it.
    ask(&mut flights, &key, 21, at(0));
    ask(&mut flights, &key, 22, at(0));
    assert_eq!(
        flights.handle_wait_timeout(&key, ParticipantId(21), at(2_999)),
        WaitTimeoutDecision::Unshared
    );
    assert_eq!(
        flights.handle_wait_timeout(&key, ParticipantId(22), at(3_000)),
        WaitTimeoutDecision::NextRung
    );
    assert_eq!(flights.waiting(), 0);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "what it measures is time")]
fn a_hundred_thousand_waiters_for_one_key_are_not_scanned() {
    let options = SingleFlightOptions { max_waiters: 100_000, ..SingleFlightOptions::default() };
    let (mut flights, key) = (flights(options), public(1));
    let start = std::time::Instant::now();
    for participant in 0..100_000 {
        ask(&mut flights, &key, participant, at(0));
    }
    for participant in (1..100_000).rev() {
        assert_ne!(
            flights.handle_wait_timeout(&key, ParticipantId(participant), at(2_000)),
            WaitTimeoutDecision::Lead
        );
    }
    // A linear list would need ten thousand million steps; this takes a tenth of a second.
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert_eq!(flights.waiting(), 0);
}

#[test]
fn beyond_the_bounds_requests_are_unshared() {
    let options = SingleFlightOptions { max_flights: 2, max_waiters: 1, ..SingleFlightOptions::default() };
    let mut flights = flights(options);
    for number in 1..=2 {
        assert_eq!(ask(&mut flights, &public(number), number, at(0)), SingleFlightDecision::Lead);
    }
    let full = SingleFlightDecision::Unshared(UnsharedReason::TooManyKeys);
    assert_eq!(ask(&mut flights, &public(3), 3, at(0)), full);
    assert!(matches!(ask(&mut flights, &public(1), 4, at(0)), SingleFlightDecision::Wait { .. }));
    let crowded = SingleFlightDecision::Unshared(UnsharedReason::TooManyWaiters);
    assert_eq!(ask(&mut flights, &public(2), 5, at(0)), crowded);
    // Flights of lost leaders are removed, and their waiters no longer count.
    assert_eq!(ask(&mut flights, &public(3), 6, at(119_999)), full);
    assert_eq!(ask(&mut flights, &public(3), 6, at(120_998)), full);
    assert_eq!(ask(&mut flights, &public(3), 6, at(120_999)), SingleFlightDecision::Lead);
    assert_eq!((flights.len(), flights.waiting()), (1, 0));
}

#[test]
fn a_lost_leader_is_kept_while_a_waiter_remains() {
    let mut flights = flights(SingleFlightOptions { max_flights: 1, ..SingleFlightOptions::default() });
    ask(&mut flights, &public(1), 1, at(0));
    ask(&mut flights, &public(1), 2, at(119_000));
    let full = SingleFlightDecision::Unshared(UnsharedReason::TooManyKeys);
    assert_eq!(ask(&mut flights, &public(2), 3, at(120_799)), full);
    assert_eq!(ask(&mut flights, &public(2), 3, at(121_799)), SingleFlightDecision::Lead);
}

#[test]
fn options_that_make_no_sense_are_refused_by_name() {
    let base = SingleFlightOptions::default();
    for (options, setting) in [
        (SingleFlightOptions { wait_percent: 0.0, ..base }, "wait_percent"),
        (SingleFlightOptions { wait_percent: f64::NAN, ..base }, "wait_percent"),
        (SingleFlightOptions { max_wait: Duration::ZERO, ..base }, "max_wait"),
        (SingleFlightOptions { leader_timeout: Duration::ZERO, ..base }, "leader_timeout"),
        (SingleFlightOptions { max_flights: 0, ..base }, "max_flights"),
        (SingleFlightOptions { max_waiters: 0, ..base }, "max_waiters"),
    ] {
        assert_eq!(options.check().unwrap_err().setting(), setting);
    }
    assert_eq!((base.max_flights, base.max_waiters), (10_000, 10_000));
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
        self.askers.iter().find_map(|(of, participant, role)| match role {
            Role::Leads { until } if *of == key => Some((*participant, *until)),
            _ => None,
        })
    }

    fn waiters(&self, key: u64) -> Vec<(u64, u64)> {
        let waits = |(of, participant, role): &(u64, u64, Role)| match role {
            Role::Waits { until } if *of == key => Some((*participant, *until)),
            _ => None,
        };
        self.askers.iter().filter_map(waits).collect()
    }

    fn drop_asker(&mut self, key: u64, dropped: u64) {
        self.askers.retain(|(of, participant, _)| (*of, *participant) != (key, dropped));
    }

    fn ask(&mut self, key: u64, participant: u64, left: u64, now: u64) -> SingleFlightDecision {
        self.deadlines.resize(place(participant) + 1, now + left);
        match self.leader(key) {
            Some((leader, until)) if now >= until => {
                self.drop_asker(key, leader);
                self.askers.push((key, participant, Role::Leads { until: now + 2_000 }));
                SingleFlightDecision::Lead
            }
            Some(_) if (0..3).map(|key| self.waiters(key).len()).sum::<usize>() >= 5 => {
                SingleFlightDecision::Unshared(UnsharedReason::TooManyWaiters)
            }
            Some(_) => {
                let until = now + (left * 60 / 100).min(20_000);
                self.askers.push((key, participant, Role::Waits { until }));
                SingleFlightDecision::Wait { until: at(until) }
            }
            None => {
                (self.promotions[place(key)], self.alone[place(key)]) = (0, 0);
                self.askers.push((key, participant, Role::Leads { until: now + 2_000 }));
                SingleFlightDecision::Lead
            }
        }
    }

    fn end(&mut self, key: u64, leader: u64, how: LeaderOutcome, now: u64) -> WaitersDecision {
        if self.leader(key).map(|(leader, _)| leader) != Some(leader) {
            return WaitersDecision::NotLeader;
        }
        self.drop_asker(key, leader);
        let waiters = self.waiters(key);
        let in_time = waiters.iter().find(|(_, until)| now < *until).copied();
        let promotions = &mut self.promotions[place(key)];
        let next = match how {
            LeaderOutcome::Answered => None,
            LeaderOutcome::Failed if *promotions == 1 => None,
            LeaderOutcome::Failed | LeaderOutcome::Disconnected => in_time,
        };
        if let Some((next, _)) = next {
            *promotions += u32::from(how == LeaderOutcome::Failed);
            self.drop_asker(key, next);
            self.askers.push((key, next, Role::Leads { until: now + 2_000 }));
            return WaitersDecision::Promote(ParticipantId(next));
        }
        self.askers.retain(|(of, ..)| *of != key);
        let all: Vec<_> = waiters.into_iter().map(|(waiter, _)| ParticipantId(waiter)).collect();
        match how {
            _ if all.is_empty() => WaitersDecision::NoWaiters,
            LeaderOutcome::Answered => WaitersDecision::Share(all),
            _ => WaitersDecision::Release(all),
        }
    }

    fn handle_wait_timeout(&mut self, key: u64, participant: u64, now: u64) -> WaitTimeoutDecision {
        match self.waiters(key).into_iter().find(|(waiter, _)| *waiter == participant) {
            None if self.leader(key).is_some_and(|(leader, _)| leader == participant) => {
                WaitTimeoutDecision::Lead
            }
            None => WaitTimeoutDecision::NextRung,
            Some((_, until)) if now < until => WaitTimeoutDecision::KeepWaiting { until: at(until) },
            Some(_) if now >= self.deadlines[place(participant)] => {
                self.drop_asker(key, participant);
                WaitTimeoutDecision::NextRung
            }
            Some(_) => {
                self.drop_asker(key, participant);
                self.alone[place(key)] += 1;
                if self.alone[place(key)] <= 2 {
                    WaitTimeoutDecision::Unshared
                } else {
                    WaitTimeoutDecision::NextRung
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn the_table_matches_a_list_model(
        steps in vec((0..6_u8, 0..3_u64, 0..40_u64, 0..4_000_u64), 1..120),
    ) {
        let options =
            SingleFlightOptions { max_waiters: 5, max_unshared: 2, leader_timeout: Duration::from_secs(2), ..SingleFlightOptions::default() };
        let (mut flights, mut slow) = (flights(options), Slow::default());
        let (mut now, mut newest) = (0, 0);
        for (step, key, back, passed) in steps {
            now += passed / 4;
            let name = public(key);
            // A recent request; mostly one that is still waiting or leading.
            let current_leader = slow.leader(key).map_or(0, |(leader, _)| leader);
            let waiter = slow.waiters(key).get(place(back) % 3).map_or(back, |(waiter, _)| *waiter);
            let left = Deadline::after(at(now), Duration::from_millis(passed * 5));
            match step {
                0..=2 => {
                    newest += 1;
                    let decision = flights.join(&name, ParticipantId(newest), left, at(now));
                    prop_assert_eq!(decision, slow.ask(key, newest, passed * 5, now));
                }
                3 => {
                    let how = [LeaderOutcome::Answered, LeaderOutcome::Failed, LeaderOutcome::Disconnected][place(back) % 3];
                    let who = if back < 35 { current_leader } else { back };
                    let landing = flights.finish(&name, ParticipantId(who), how, at(now));
                    prop_assert_eq!(landing, slow.end(key, who, how, now));
                }
                4 => {
                    let who = if back < 30 { waiter } else { current_leader };
                    let decision = flights.handle_wait_timeout(&name, ParticipantId(who), at(now));
                    prop_assert_eq!(decision, slow.handle_wait_timeout(key, who, now));
                }
                _ => {
                    let who = if back < 30 { waiter } else { current_leader };
                    let landing = flights.leave(&name, ParticipantId(who), at(now));
                    let expected = slow.end(key, who, LeaderOutcome::Disconnected, now);
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
