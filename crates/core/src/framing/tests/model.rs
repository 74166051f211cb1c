//! Model tests of the framer against naive references that keep everything.

use super::escape::awkward_text;
use super::{Client, Seen, at, check_memory};
use crate::failure::{Failure, FailureKind};
use crate::framing::{
    Framer, FramerPollDecision, FramingFinishReason, FramingOptions, PushDecision, ResumeDecision, SendId,
    StreamState, UpstreamDecision,
};
use proptest::collection::vec;
use proptest::prelude::{prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::{Just, Strategy};
use std::time::Duration;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Small numbers, so that every limit is reached often.
fn small() -> FramingOptions {
    FramingOptions {
        flush_interval: millis(7),
        flush_bytes: 40,
        max_frame_bytes: 70 + 64 + 2,
        envelope_bytes: 70,
        heartbeat_interval: millis(11),
        max_duration: millis(400),
        idle_timeout: millis(60),
        max_output_tokens: 500,
        send_retry_delay: millis(5),
        max_send_failures: 3,
        high_watermark: 150,
        low_watermark: 60,
        max_pending_bytes: 260,
        replay_bytes: 600,
        replay_for: millis(120),
    }
}

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Push(String),
    Take,
    Deliver,
    Fail,
    Detach,
    Cancel,
    /// Resumes after losing this many of the last frames.
    Resume(u64),
    Tokens(u64),
    Finish(FramingFinishReason),
    Interrupt,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0_u64..15).prop_map(Step::Pass),
        1 => (0_u64..90).prop_map(Step::Pass),
        6 => awkward_text().prop_map(Step::Push),
        2 => Just(Step::Push(String::new())),
        6 => Just(Step::Take),
        6 => Just(Step::Deliver),
        2 => Just(Step::Fail),
        1 => Just(Step::Detach),
        1 => (0_u64..6).prop_map(Step::Resume),
        1 => (0_u64..60).prop_map(Step::Tokens),
    ]
}

fn last_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Finish(FramingFinishReason::Stop)),
        Just(Step::Finish(FramingFinishReason::UpstreamEnded)),
        Just(Step::Interrupt),
        Just(Step::Cancel),
        Just(Step::Tokens(1_000)),
        Just(Step::Pass(500)),
    ]
}

/// A framer, its input, and a client that may lose its connection.
struct World {
    framer: Framer,
    now: u64,
    given: String,
    /// Everything that ever reached the client, in order of index.
    frames: Vec<String>,
    on_this_connection: Client,
    in_flight: Option<(SendId, Seen)>,
    endings: usize,
}

impl World {
    fn new(options: FramingOptions) -> Self {
        Self {
            framer: Framer::new(options.check().unwrap(), at(0)),
            now: 0,
            given: String::new(),
            frames: Vec::new(),
            on_this_connection: Client::default(),
            in_flight: None,
            endings: 0,
        }
    }

    fn take(&mut self) {
        if let Some(frame) = self.on_this_connection.take(&mut self.framer, at(self.now)) {
            assert!(self.in_flight.is_none(), "two frames in flight");
            self.in_flight = Some(frame);
        }
    }

    fn deliver(&mut self) {
        let Some((send_id, seen)) = self.in_flight.take() else { return };
        assert!(self.framer.report_sent(send_id, at(self.now)));
        match &seen {
            // An index always has the same text, whichever connection it is sent on.
            Seen::Text(index, text) => match self.frames.get(usize::try_from(*index).unwrap()) {
                Some(known) => assert_eq!(known, text),
                None => self.frames.push(text.clone()),
            },
            Seen::Ending(..) => self.endings += 1,
            Seen::Heartbeat => {}
        }
        self.on_this_connection.keep(seen, at(self.now));
    }

    fn resume(&mut self, lost: u64) {
        let last = (self.frames.len() as u64).checked_sub(1 + lost);
        match self.framer.resume(last, at(self.now)) {
            ResumeDecision::Resumed { frames } => {
                let known = self.frames.len() as u64 - last.map_or(0, |last| last + 1);
                assert!(frames == known || frames == known + 1);
                self.in_flight = None;
                self.on_this_connection = Client { last, ..Client::default() };
                self.endings = 0;
            }
            ResumeDecision::Gone { first_kept: Some(first) } => {
                assert!(last.is_none_or(|last| last + 1 < first));
            }
            ResumeDecision::Gone { first_kept: None } => assert!(self.framer.ending().is_some()),
            ResumeDecision::NotSentYet { .. } => panic!("{last:?} was sent"),
        }
    }

    fn apply(&mut self, step: &Step) {
        let now = at(self.now);
        match step {
            Step::Pass(time) => self.now += time,
            Step::Push(text) => match self.framer.push(text, now) {
                PushDecision::Accepted => self.given.push_str(text),
                PushDecision::PartiallyAccepted { bytes } => self.given.push_str(&text[..bytes]),
                PushDecision::Ended => assert_eq!(self.framer.upstream(), UpstreamDecision::Close),
            },
            Step::Take => self.take(),
            Step::Deliver => self.deliver(),
            Step::Fail => {
                if let Some((send_id, _)) = self.in_flight.take() {
                    self.framer.report_send_failure(send_id, now);
                }
            }
            Step::Detach => {
                self.in_flight = None;
                self.framer.detach(now);
            }
            Step::Cancel => {
                self.in_flight = None;
                self.framer.cancel(now);
            }
            Step::Resume(lost) => self.resume(*lost),
            Step::Tokens(tokens) => self.framer.count_tokens(*tokens, now),
            Step::Finish(reason) => {
                self.framer.finish(*reason, now);
            }
            Step::Interrupt => {
                self.framer.interrupt(&Failure::of(FailureKind::ServerFault), now);
            }
        }
    }

    fn check(&self) {
        let options = self.framer.settings().options();
        check_memory(&self.framer);
        assert!(self.framer.pending_bytes() <= options.max_pending_bytes);
        assert!(self.given.starts_with(&self.frames.concat()));
        assert!(self.endings <= 1);
        let paused = self.framer.state() == StreamState::Paused;
        assert!(!paused || self.framer.pending_bytes() > options.low_watermark);
        assert!(self.framer.wants_input() || paused || self.framer.ending().is_some());
        let delivered: usize = self.frames.iter().map(String::len).sum();
        if self.framer.memory() > 0 {
            // At most the frame that was delivered without a report is counted differently.
            assert!(self.given.len() - delivered >= self.framer.pending_bytes());
        }
    }
}

proptest! {
    /// Whatever happens in whatever order, a client that keeps resuming has all the text and one ending.
    #[test]
    fn nothing_is_lost_repeated_or_split(steps in vec(step(), 1..150), last in last_step()) {
        let mut world = World::new(small());
        for step in &steps {
            world.apply(step);
            let decision = world.framer.poll(at(world.now));
            let deadline = world.framer.next_deadline();
            prop_assert!(deadline.is_none_or(|deadline| deadline > at(world.now)));
            if let FramerPollDecision::Wait { until } = decision {
                prop_assert_eq!(until, deadline);
            }
            world.check();
        }
        world.apply(&last);
        world.framer.poll(at(world.now));
        prop_assert!(world.framer.ending().is_some());
        let ending = world.framer.ending();
        if world.framer.poll(at(world.now)) != FramerPollDecision::Expired {
            // Refused if the resume window has closed while the client is still being served: then it continues as it
            // was.
            world.resume(0);
            for _ in 0..1_000 {
                world.deliver();
                world.take();
                world.now += u64::from(world.in_flight.is_none());
            }
            world.check();
            prop_assert_eq!(&world.frames.concat(), &world.given);
            prop_assert_eq!(world.endings, 1);
            prop_assert_eq!(world.on_this_connection.ending().map(|(ending, _)| ending), ending);
        }
        world.framer.poll(at(world.now + 120));
        prop_assert_eq!(world.framer.poll(at(world.now + 120)), FramerPollDecision::Expired);
        prop_assert_eq!(world.framer.memory(), 0);
    }

    /// Waking only when the framer asks for it has the same result, at the same time, as polling every millisecond.
    #[test]
    fn deadlines_miss_nothing(
        deltas in vec((0_u64..80, awkward_text(), 0_u64..20), 0..25),
        fails in vec(proptest::bool::weighted(0.3), 40),
        delay in 0_u64..4,
        end in 1_u64..600,
    ) {
        let run = |every_millisecond: bool| {
            let mut world = World::new(small());
            let mut fails = fails.iter().cycle();
            let mut log = Vec::new();
            let mut moments: Vec<u64> = deltas.iter().scan(0, |when, (wait, ..)| {
                *when += wait;
                Some(*when)
            }).collect();
            moments.push(end);
            let (mut lands_at, mut ended_at) = (None, None);
            for now in 0..900 {
                let something = moments.contains(&now) || lands_at == Some(now);
                let due = world.framer.next_deadline() == Some(at(now));
                if !(every_millisecond || something || due) {
                    continue;
                }
                world.now = now;
                if lands_at == Some(now) {
                    lands_at = None;
                    world.apply(if *fails.next().unwrap() { &Step::Fail } else { &Step::Deliver });
                }
                for (moment, (_, text, tokens)) in moments.iter().zip(&deltas) {
                    if *moment == now && world.framer.wants_input() {
                        world.apply(&Step::Push(text.clone()));
                        world.apply(&Step::Tokens(*tokens));
                    }
                }
                if now == end {
                    world.apply(&Step::Finish(FramingFinishReason::Stop));
                }
                world.framer.poll(at(now));
                while world.in_flight.is_none() {
                    world.take();
                    let Some((_, seen)) = &world.in_flight else { break };
                    log.push((now, seen.clone()));
                    if delay == 0 {
                        world.apply(if *fails.next().unwrap() { &Step::Fail } else { &Step::Deliver });
                    } else {
                        lands_at = Some(now + delay);
                    }
                }
                world.check();
                if ended_at.is_none() && world.framer.ending().is_some() {
                    ended_at = Some(now);
                }
            }
            (log, world.frames, (world.framer.ending(), ended_at), world.framer.stats())
        };
        let (seldom, often) = (run(false), run(true));
        prop_assert_eq!(&seldom.0, &often.0);
        prop_assert_eq!((seldom.1, seldom.2), (often.1, often.2));
        // Running durations are read at the latest timestamp that each has seen.
        prop_assert_eq!(seldom.3.deltas_in, often.3.deltas_in);
        prop_assert_eq!(seldom.3.heartbeats, often.3.heartbeats);
        prop_assert_eq!(seldom.3.pause_time, often.3.pause_time);
    }

    /// With a client that takes everything at once, the frames are those computed from a list of deltas with their
    /// times.
    #[test]
    fn frames_are_those_of_a_list_of_deltas(deltas in vec((0_u64..20, 1_usize..30), 1..60)) {
        let options = FramingOptions { max_duration: millis(10_000), max_frame_bytes: 1_000, ..small() };
        let (flush_interval, flush_bytes) = (7, options.flush_bytes);
        let mut framer = Framer::new(options.check().unwrap(), at(0));
        let mut client = Client::default();
        let (mut now, mut list) = (0, Vec::new());
        for (number, (wait, length)) in deltas.iter().enumerate() {
            client.drain_until(&mut framer, at(now), at(now + wait));
            now += wait;
            let text = char::from(b'a' + u8::try_from(number % 26).unwrap()).to_string().repeat(*length);
            prop_assert_eq!(framer.push(&text, at(now)), PushDecision::Accepted);
            client.drain(&mut framer, at(now));
            list.push((now, text));
        }
        client.drain_until(&mut framer, at(now), at(now + 10));

        let mut expected: Vec<(u64, String)> = Vec::new();
        let mut waiting: Vec<(u64, String)> = Vec::new();
        for moment in 0..=now + 10 {
            // Waiting text is sent before text that arrives at the same moment.
            let due = |waiting: &[(u64, String)], begun: bool| {
                let bytes: usize = waiting.iter().map(|(_, text)| text.len()).sum();
                waiting.first().is_some_and(|(oldest, _)| !begun || moment - oldest >= flush_interval || bytes >= flush_bytes)
            };
            let send = |waiting: &mut Vec<(u64, String)>, expected: &mut Vec<(u64, String)>| {
                if due(waiting, !expected.is_empty()) {
                    expected.push((moment, waiting.drain(..).map(|(_, text)| text).collect()));
                }
            };
            send(&mut waiting, &mut expected);
            for delta in list.iter().filter(|(when, _)| *when == moment) {
                waiting.push(delta.clone());
                send(&mut waiting, &mut expected);
            }
        }
        let found: Vec<(u64, String)> = client.seen.into_iter().filter_map(|(when, seen)| match seen {
            Seen::Text(_, text) => Some((when.as_nanos() / 1_000_000, text)),
            _ => None,
        }).collect();
        prop_assert_eq!(found, expected);
    }
}
