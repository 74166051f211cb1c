//! Checks of degradation, hours, the cache and framing.

use super::Checker;
use crate::field::KeyOrigins;
use crate::kind::{TimeOfDayKind, ValueKind as _};
use crate::problem::{Problem, ProblemCode};
use crate::raw;
use crate::settings::{CacheSettings, ClassifierSettings, DegradationSettings, HoursSettings};
use crate::source::Located;
use seawall_core::cache_policy::{CacheAgeOptions, CacheStoreOptions, SingleFlightOptions};
use seawall_core::framing::{FramingOptions, FramingSettings};
use seawall_core::hours::{DailySchedule, HoursOptions, OffPeakOptions};
use seawall_core::ladder::{
    ClassifierOptions, ClassifierWatch, LadderOptions, SignalWindow, SignalWindowOptions,
};

pub(super) fn degradation(
    raw: &raw::DegradationSection,
    checker: &mut Checker<'_>,
) -> Option<DegradationSettings> {
    let (text, cpu) = (&raw.first_text, &raw.cpu);
    let options = LadderOptions {
        first_text: [text.elevated.value, text.high_load.value, text.overload.value],
        cpu_percent: [cpu.elevated.value, cpu.high_load.value, cpu.overload.value],
        error_percent: raw.error_rate.value,
        throttle_percent: raw.throttle_rate.value,
        interval: raw.interval.value,
        stale_after: raw.stale_after.value,
        recovery_for: raw.recovery_for.value,
        recovery_threshold_percent: raw.recovery_threshold.value,
        alarm_after: raw.alarm_after.value,
    };
    let ladder = checker.checked(&[raw], options.check());
    let window = SignalWindowOptions {
        window: raw.window.window.value,
        min_calls: raw.window.min_calls.value,
        timed_out_counts_as: raw.window.timed_out_counts_as.value,
    };
    let ladder = ladder?;
    checker.checked(&[&raw.window], SignalWindow::new(&window, &ladder).map(drop))?;
    Some(DegradationSettings { ladder, window })
}

pub(super) fn classifier(
    raw: &raw::ClassifierSection,
    checker: &mut Checker<'_>,
) -> Option<ClassifierSettings> {
    let watch = ClassifierOptions {
        window: raw.window.value,
        failure_percent: raw.failure_rate.value,
        min_calls: raw.min_calls.value,
    };
    checker.check_positive(raw, "timeout", &raw.timeout);
    checker.checked(&[raw], ClassifierWatch::new(&watch).map(drop))?;
    Some(ClassifierSettings { watch, timeout: raw.timeout.value })
}

fn hours_options(
    section: &dyn KeyOrigins,
    (start, end, offset): (&Located<u32>, &Located<u32>, &Located<i32>),
    checker: &mut Checker<'_>,
) -> Option<HoursOptions> {
    let options = HoursOptions { start: start.value, end: end.value, utc_offset: offset.value };
    if start.value == end.value {
        let clock = TimeOfDayKind::to_toml(&start.value);
        let message = format!("{}.end: {clock} equals start, so the period is empty", section.path());
        let problem =
            Problem::error(ProblemCode::EmptyHours, message, end.origin).also_at(start.origin, "start");
        checker.add(problem.help("for the whole day write start = \"00:00\" and end = \"24:00\""));
        return None;
    }
    let Err(error) = options.check() else { return Some(options) };
    let key = error.setting();
    let origin = section.origin_of(key).unwrap_or_else(|| section.origin());
    let problem = match key {
        "start" => "24:00 is valid only as an end".to_owned(),
        _ => error.problem().to_owned(),
    };
    checker.add(Problem::error(
        ProblemCode::InvalidValue,
        format!("{}.{key}: {problem}", section.path()),
        origin,
    ));
    None
}

pub(super) fn hours(
    off_peak_section: &raw::OffPeakSection,
    evening_section: &raw::EveningPeakSection,
    checker: &mut Checker<'_>,
) -> Option<HoursSettings> {
    let hours = hours_options(
        off_peak_section,
        (&off_peak_section.start, &off_peak_section.end, &off_peak_section.utc_offset),
        checker,
    );
    let evening_peak = hours_options(
        evening_section,
        (&evening_section.start, &evening_section.end, &evening_section.utc_offset),
        checker,
    );
    let off_peak = OffPeakOptions {
        hours: hours?,
        exempt_tiers: off_peak_section.exempt_tiers.value.iter().map(|tier| tier.value).collect(),
        exempt_priorities: off_peak_section
            .exempt_priorities
            .value
            .iter()
            .map(|priority| priority.value)
            .collect(),
    };
    let off_peak = checker.checked(&[off_peak_section], off_peak.check())?;
    let evening_peak = checker.checked(&[evening_section], evening_peak?.check())?;
    let named = [("router.evening_peak", evening_peak), ("off_peak", *off_peak.hours())];
    // One is when many ask and the other is when few do, so that a minute in both is a mistake.
    match DailySchedule::new(named.map(|(name, hours)| (name.to_owned(), hours)).to_vec()) {
        Ok(_) => Some(HoursSettings { evening_peak, off_peak }),
        Err(error) => {
            let message = error.problem();
            let problem =
                Problem::error(ProblemCode::OverlappingHours, message, off_peak_section.start.origin);
            checker.add(problem.also_at(evening_section.end.origin, "the peak hours end here"));
            None
        }
    }
}

pub(super) fn cache(cache: &raw::CacheSection, checker: &mut Checker<'_>) -> Option<CacheSettings> {
    let ages = CacheAgeOptions {
        max_age: cache.max_age.value,
        max_stale_age: cache.max_stale_age.value,
        clock_skew: cache.clock_skew.value,
    };
    let ages = checker.checked(&[cache], ages.check());
    let single_flight = SingleFlightOptions {
        wait_percent: cache.single_flight.wait_percent.value,
        max_wait: cache.single_flight.max_wait.value,
        leader_timeout: cache.single_flight.leader_timeout.value,
        max_promotions: cache.single_flight.max_promotions.value,
        max_unshared: cache.single_flight.max_unshared.value,
        max_flights: in_memory(cache.single_flight.max_flights.value),
        max_waiters: in_memory(cache.single_flight.max_waiters.value),
    };
    let checked = checker.checked(&[&cache.single_flight], single_flight.check().map(drop));
    let ages = ages?;
    let storage = CacheStoreOptions { max_answer_size: in_memory(cache.max_answer_size.value) };
    let storage = checker.checked(&[cache], storage.check(ages))?;
    checked?;
    Some(CacheSettings { ages, storage, single_flight })
}

fn in_memory(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

pub(super) fn framing(framing: &raw::FramingSection, checker: &mut Checker<'_>) -> Option<FramingSettings> {
    let options = FramingOptions {
        flush_interval: framing.flush_interval.value,
        flush_bytes: in_memory(framing.flush_bytes.value),
        max_frame_bytes: in_memory(framing.max_frame_bytes.value),
        envelope_bytes: in_memory(framing.envelope_bytes.value),
        heartbeat_interval: framing.heartbeat_interval.value,
        max_duration: framing.max_duration.value,
        idle_timeout: framing.idle_timeout.value,
        max_output_tokens: framing.max_output_tokens.value,
        send_retry_delay: framing.send_retry_delay.value,
        max_send_failures: framing.max_send_failures.value,
        high_watermark: in_memory(framing.high_watermark.value),
        low_watermark: in_memory(framing.low_watermark.value),
        max_pending_bytes: in_memory(framing.max_pending_bytes.value),
        replay_bytes: in_memory(framing.replay_bytes.value),
        replay_for: framing.replay_for.value,
    };
    checker.checked(&[framing], options.check())
}
