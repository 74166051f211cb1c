//! The cost of putting a delta into a frame.

use super::{PolicyCases, median_of};
use crate::measure::{Case, Measurement};
use crate::report::BenchGate;
use seawall_core::framing::{Framer, FramingOptions, FramingSettings};
use seawall_core::setting::SettingError;
use seawall_core::time::Timestamp;
use std::time::Duration;

const DELTAS: u32 = 2_000_000;
/// Goal: maximum cost of a delta in nanoseconds, including its share of the frames.
const MAX_COST: f64 = 100.0;

const ONE_CHARACTER: &str = "framing, a delta of one character";
const FOUR_BYTES: &str = "framing, a delta of four bytes, 𠮷";
const IN_BYTES: &str = "framing, a delta of four bytes, as bytes";
const SIXTY: &str = "framing, a delta at sixty a second";

pub(crate) fn cases<'a>() -> PolicyCases<'a> {
    // Ten million deltas per second, so that frames are flushed by size; or the rate of a model, so that they are
    // flushed by time.
    let quick = Duration::from_nanos(100);
    let cases = vec![
        case(ONE_CHARACTER, quick, |framer, now| framer.push("x", now)),
        case(FOUR_BYTES, quick, |framer, now| framer.push("𠮷", now)),
        case(IN_BYTES, quick, |framer, now| framer.push_bytes("𠮷".as_bytes(), now)),
        case(SIXTY, Duration::from_nanos(16_666_667), |framer, now| framer.push("x", now)),
    ];
    PolicyCases { cases, gates: vec![one_character, four_bytes, in_bytes, sixty] }
}

fn gate(measured: &[Measurement], name: &'static str) -> BenchGate {
    BenchGate { name, figure: median_of(measured, name), bound: MAX_COST }
}

fn one_character(measured: &[Measurement]) -> BenchGate {
    gate(measured, ONE_CHARACTER)
}

fn four_bytes(measured: &[Measurement]) -> BenchGate {
    gate(measured, FOUR_BYTES)
}

fn in_bytes(measured: &[Measurement]) -> BenchGate {
    gate(measured, IN_BYTES)
}

fn sixty(measured: &[Measurement]) -> BenchGate {
    gate(measured, SIXTY)
}

/// One endless stream. After each delta the driver polls for a frame, and delivers it if there is one.
fn case<'a, T>(
    name: &'static str,
    between: Duration,
    mut push: impl FnMut(&mut Framer, Timestamp) -> T + 'a,
) -> Case<'a> {
    let settings = endless().unwrap_or_else(|error| unreachable!("{error}"));
    let mut now = Timestamp::ZERO;
    let mut framer = Framer::new(settings, now);
    let run = move |deltas: u32| {
        let mut frames = 0;
        for _ in 0..deltas {
            now = now + between;
            std::hint::black_box(push(&mut framer, now));
            if let Some(frame) = framer.next_frame(now) {
                let send_id = std::hint::black_box(frame).send_id;
                framer.report_sent(send_id, now);
                frames += 1;
            }
        }
        frames
    };
    Case { name, decisions: DELTAS, run: Box::new(run) }
}

fn endless() -> Result<FramingSettings, SettingError> {
    FramingOptions { max_duration: Duration::MAX, max_output_tokens: u64::MAX, ..FramingOptions::default() }
        .check()
}
