//! Checks of degradation, hours, the cache and framing.

use super::Checker;
use crate::field::Keyed;
use crate::kind::{ClockTime, Kind as _};
use crate::problem::{Code, Problem};
use crate::raw;
use crate::settings::{CacheSettings, ClassifierSettings, DegradationSettings};
use crate::source::Located;
use seawall_core::cache_policy::{CacheAgeOptions, FlightOptions, StoreOptions};
use seawall_core::evaluator::ShopHours;
use seawall_core::framing::{FramingOptions, FramingSettings};
use seawall_core::hours::{HoursOptions, OffPeakOptions};
use seawall_core::ladder::{
    ClassifierOptions, ClassifierWatch, LadderOptions, SignalWindow, SignalWindowOptions,
};
use seawall_core::router::RouterOptions;

pub(super) fn degradation(raw: &raw::Degradation, checker: &mut Checker<'_>) -> Option<DegradationSettings> {
    let (text, cpu) = (&raw.first_text, &raw.cpu);
    let options = LadderOptions {
        first_text: [text.pressure.value, text.high_load.value, text.overload.value],
        cpu_percent: [cpu.pressure.value, cpu.high_load.value, cpu.overload.value],
        error_percent: raw.error_rate.value,
        throttle_percent: raw.throttle_rate.value,
        interval: raw.interval.value,
        stale_after: raw.stale_after.value,
        calm_for: raw.calm_for.value,
        calm_percent: raw.calm.value,
        alarm_after: raw.alarm_after.value,
    };
    let ladder = checker.checked(&[raw], options.check());
    let window = SignalWindowOptions {
        window: raw.window.window.value,
        min_calls: raw.window.min_calls.value,
        cut_counts_as: raw.window.cut_counts_as.value,
    };
    let ladder = ladder?;
    checker.checked(&[&raw.window], SignalWindow::new(&window, &ladder).map(drop))?;
    Some(DegradationSettings { ladder, window })
}

pub(super) fn classifier(raw: &raw::Classifier, checker: &mut Checker<'_>) -> Option<ClassifierSettings> {
    let watch = ClassifierOptions {
        window: raw.window.value,
        failure_percent: raw.failure_rate.value,
        min_calls: raw.min_calls.value,
    };
    checker.positive(raw, "time", &raw.time);
    checker.checked(&[raw], ClassifierWatch::new(&watch).map(drop))?;
    Some(ClassifierSettings { watch, time: raw.time.value })
}

fn span(
    section: &dyn Keyed,
    (start, end, offset): (&Located<u32>, &Located<u32>, &Located<i32>),
    checker: &mut Checker<'_>,
) -> Option<HoursOptions> {
    let options = HoursOptions { start: start.value, end: end.value, utc_offset: offset.value };
    if start.value == end.value {
        let clock = ClockTime::show(&start.value);
        let message =
            format!("{}.end: {clock} is also the start, so that there are no such hours", section.path());
        let problem = Problem::error(Code::EmptyHours, message, end.origin).also(start.origin, "the start");
        checker.add(problem.help("for the whole day write start = \"00:00\" and end = \"24:00\""));
        return None;
    }
    let Err(error) = options.check() else { return Some(options) };
    let key = error.setting();
    let origin = section.origin_of(key).unwrap_or_else(|| section.origin());
    let problem = match key {
        "start" => "24:00 ends a day and cannot begin one".to_owned(),
        _ => error.problem().to_owned(),
    };
    checker.add(Problem::error(Code::Impossible, format!("{}.{key}: {problem}", section.path()), origin));
    None
}

pub(super) fn hours(
    night: &raw::OffPeak,
    evening: &raw::EveningPeak,
    checker: &mut Checker<'_>,
) -> Option<ShopHours> {
    let hours = span(night, (&night.start, &night.end, &night.utc_offset), checker);
    let evening_peak = span(evening, (&evening.start, &evening.end, &evening.utc_offset), checker);
    let off_peak = OffPeakOptions {
        hours: hours?,
        exempt_tiers: night.exempt_tiers.value.iter().map(|tier| tier.value).collect(),
        exempt_priorities: night.exempt_priorities.value.iter().map(|priority| priority.value).collect(),
    };
    let off_peak = checker.checked(&[night], off_peak.check())?;
    let router = checker.checked(&[evening], RouterOptions { evening_peak: evening_peak? }.check())?;
    match ShopHours::new(router, off_peak) {
        Ok(hours) => Some(hours),
        Err(error) => {
            let message = error.problem().replace("evening_peak", "router.evening_peak");
            let problem = Problem::error(Code::OverlappingHours, message, night.start.origin);
            checker.add(problem.also(evening.end.origin, "the evening ends here"));
            None
        }
    }
}

pub(super) fn cache(cache: &raw::Cache, checker: &mut Checker<'_>) -> Option<CacheSettings> {
    let ages = CacheAgeOptions {
        fresh_for: cache.fresh_for.value,
        keep_for: cache.keep_for.value,
        clock_skew: cache.clock_skew.value,
    };
    let ages = checker.checked(&[cache], ages.check());
    let flights = FlightOptions {
        wait_percent: cache.flights.wait.value,
        most_wait: cache.flights.most_wait.value,
        most_lead: cache.flights.most_lead.value,
        most_promotions: cache.flights.most_promotions.value,
        most_alone: cache.flights.most_alone.value,
        most_flights: in_memory(cache.flights.most_flights.value),
        most_waiters: in_memory(cache.flights.most_waiters.value),
    };
    let checked = checker.checked(&[&cache.flights], flights.check().map(drop));
    let ages = ages?;
    let storing = StoreOptions { largest_text: in_memory(cache.largest_text.value) };
    let storing = checker.checked(&[cache], storing.check(ages))?;
    checked?;
    Some(CacheSettings { ages, storing, flights })
}

fn in_memory(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

pub(super) fn framing(framing: &raw::Framing, checker: &mut Checker<'_>) -> Option<FramingSettings> {
    let options = FramingOptions {
        flush_after: framing.flush_after.value,
        flush_bytes: in_memory(framing.flush_bytes.value),
        frame_bytes: in_memory(framing.frame_bytes.value),
        envelope_bytes: in_memory(framing.envelope_bytes.value),
        heartbeat_every: framing.heartbeat_every.value,
        total: framing.total.value,
        upstream_gap: framing.upstream_gap.value,
        output_tokens: framing.output_tokens.value,
        send_again_after: framing.send_again_after.value,
        send_failures: framing.send_failures.value,
        pause_above: in_memory(framing.pause_above.value),
        resume_at: in_memory(framing.resume_at.value),
        pending_bytes: in_memory(framing.pending_bytes.value),
        keep_bytes: in_memory(framing.keep_bytes.value),
        keep_for: framing.keep_for.value,
    };
    checker.checked(&[framing], options.check())
}
