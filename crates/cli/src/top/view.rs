//! The screen as lines of text: a pure function of the snapshot, the state of the view and the size.
//!
//! Panels get the rows that are left in the order of what matters at night: is it well, what is wrong, who is hit. A
//! smaller screen has fewer panels and rows; a line says how many are missing.

use super::keys::{TimeZoneChoice, TopPanel, ViewState};
use super::snapshot::{CallerRow, TargetRow, TopSnapshot};
use super::zone::LocalZone;
use crate::record_text::{
    Attention, clock_time, column, request_cost, right_column, short_caller, text_of, total_cost,
};
use unicode_width::UnicodeWidthStr as _;

/// From this width on, charts and live requests are beside the panels.
const WIDE: usize = 132;
const PANEL_WIDTH: usize = 84;
/// From this width on, lines and tables are complete.
const FULL_WIDTH: usize = 78;

/// A line, with how much attention it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScreenLine {
    pub(crate) text: String,
    pub(crate) severity: Attention,
    pub(crate) is_selected: bool,
}

impl ScreenLine {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), severity: Attention::Fine, is_selected: false }
    }

    fn with(text: impl Into<String>, severity: Attention) -> Self {
        Self { severity, ..Self::new(text) }
    }
}

/// The screen. `zone` is the zone of this machine, if it is known.
pub(crate) fn screen(
    snapshot: &TopSnapshot,
    view: &ViewState,
    zone: Option<&LocalZone>,
    (width, height): (usize, usize),
) -> Vec<ScreenLine> {
    let panel_width = if width >= WIDE { PANEL_WIDTH } else { width };
    let mut lines = match &view.explanation {
        Some(explanation) => explanation.lines().map(ScreenLine::new).collect(),
        None => panels(snapshot, view, zone, (panel_width, height.saturating_sub(1))),
    };
    lines.truncate(height.saturating_sub(1));
    lines.resize(height.saturating_sub(1), ScreenLine::new(""));
    if width >= WIDE && view.explanation.is_none() {
        let side = side_column(snapshot, (width - PANEL_WIDTH - 3, lines.len()));
        for (line, beside) in lines.iter_mut().zip(side) {
            line.text = format!("{} | {beside}", column(&line.text, PANEL_WIDTH));
        }
    }
    lines.push(ScreenLine::new(footer(view, width)));
    for line in &mut lines {
        line.text = column(&line.text, width).trim_end().to_owned();
    }
    lines
}

fn footer(view: &ViewState, width: usize) -> String {
    if view.is_filter_edited {
        return format!("/{}_", view.filter);
    }
    if view.explanation.is_some() {
        return "Esc back  q back".to_owned();
    }
    let filter = if view.filter.is_empty() { String::new() } else { format!("  [/{}]", view.filter) };
    let keys = if width >= FULL_WIDTH {
        "p pause  t targets  c callers  s spend  / filter  Enter explain  u zone  q quit"
    } else {
        "p t c s / Enter u q"
    };
    keys.to_owned() + &filter
}

/// A time of the gateway in the chosen zone.
fn shown_time(time: &str, view: &ViewState, zone: Option<&LocalZone>) -> String {
    let utc = clock_time(time).split_once('.').map_or(clock_time(time), |(seconds, _)| seconds);
    let utc = utc.trim_end_matches('Z');
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i32>().ok());
    let mut parts = utc.split(':');
    let local = zone.zip(number(parts.next())).zip(number(parts.next())).map(|((zone, hour), minute)| {
        let (hour, minute) = zone.clock(hour, minute);
        format!("{hour:02}:{minute:02} {}", zone.name)
    });
    match (view.zone, local) {
        (TimeZoneChoice::Local, Some(local)) => local,
        (TimeZoneChoice::Both, Some(local)) => format!("{utc}Z {local}"),
        _ => format!("{utc}Z"),
    }
}

fn panels(
    snapshot: &TopSnapshot,
    view: &ViewState,
    zone: Option<&LocalZone>,
    (width, height): (usize, usize),
) -> Vec<ScreenLine> {
    let is_small = height < 20;
    let mut lines = head(snapshot, view, zone, width);
    lines.extend(spend(snapshot, width, view.panel == TopPanel::Spend));
    if !is_small {
        lines.push(ScreenLine::new(""));
    }
    let targets: Vec<&TargetRow> =
        snapshot.targets.iter().filter(|target| view.shows(&target.name)).collect();
    let callers: Vec<&CallerRow> = snapshot.callers.iter().filter(|row| view.shows(&row.caller)).collect();
    // Two headings, the line of rejections and the blank lines between panels.
    let rest = height.saturating_sub(lines.len() + if is_small { 3 } else { 6 });
    let part = |panel| if view.panel == panel { rest / 2 } else { rest / 3 };
    let target_rows = targets.len().min(part(TopPanel::Targets).max(2));
    lines.push(ScreenLine::new(target_heading(width)));
    lines.extend(targets.iter().take(target_rows).map(|target| target_line(target, width)));
    more(&mut lines, targets.len() - target_rows);
    if !is_small {
        lines.push(ScreenLine::new(""));
    }
    lines.push(rejections(snapshot));
    if !is_small || view.panel == TopPanel::Callers {
        let rows = callers.len().min(part(TopPanel::Callers).max(1));
        lines.push(ScreenLine::new(CALLER_HEADING));
        lines.extend(callers.iter().take(rows).map(|caller| caller_line(caller)));
        more(&mut lines, callers.len() - rows);
        lines.push(ScreenLine::new(""));
    }
    let room = height.saturating_sub(lines.len());
    lines.extend(events(snapshot, view, zone, room));
    lines
}

fn more(lines: &mut Vec<ScreenLine>, hidden: usize) {
    if hidden > 0 {
        lines.push(ScreenLine::new(format!("({hidden} more rows)")));
    }
}

fn uptime(seconds: u64) -> String {
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60) {
        (0, 0, minutes) => format!("{minutes}m{:02}s", seconds % 60),
        (0, hours, minutes) => format!("{hours}h{minutes:02}m"),
        (days, hours, _) => format!("{days}d{hours:02}h"),
    }
}

fn head(snapshot: &TopSnapshot, view: &ViewState, zone: Option<&LocalZone>, width: usize) -> Vec<ScreenLine> {
    let (state, severity) = match (snapshot.silent_for, view.is_paused, snapshot.is_draining) {
        (silent, _, _) if silent > 3 => (format!("NO ANSWER for {silent} s, as of"), Attention::Bad),
        (_, true, _) => ("PAUSED".to_owned(), Attention::Warning),
        (_, _, true) => ("DRAINING".to_owned(), Attention::Warning),
        _ => ("LIVE".to_owned(), Attention::Fine),
    };
    let TopSnapshot { address, version, .. } = snapshot;
    let up = uptime(snapshot.uptime);
    let time = shown_time(&snapshot.time, view, zone);
    let level_severity = if snapshot.level == "normal" { Attention::Fine } else { Attention::Warning };
    let rate = snapshot.rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}/s"));
    let (bad, all) = snapshot.bad;
    let share = if all == 0 { "-".to_owned() } else { format!("{:.1}%", bad as f64 * 100.0 / all as f64) };
    let first = snapshot
        .first_content
        .map_or_else(|| "-".to_owned(), |(p50, p99)| format!("p50 {p50:.2}s p99 {p99:.2}s"));
    let title = |product: &str| ScreenLine::with(format!("{product} up {up}   {state} {time}"), severity);
    let is_bad = bad.saturating_mul(20) > all;
    let rate_severity = if is_bad { Attention::Warning } else { Attention::Fine };
    let TopSnapshot { level, in_flight, .. } = snapshot;
    if width < FULL_WIDTH {
        let p99 = snapshot.first_content.map_or_else(|| "-".to_owned(), |(_, p99)| format!("{p99:.2}s"));
        let text = format!("{level}  rate {rate}  bad {share}  p99 {p99}  in flight {in_flight}");
        let is_normal = rate_severity == Attention::Fine && level_severity == Attention::Fine;
        let severity = if is_normal { Attention::Fine } else { Attention::Warning };
        return vec![title(address), ScreenLine::with(text, severity)];
    }
    let sum: u64 = snapshot.rungs.iter().map(|(_, count)| count).sum();
    let share_of =
        |(rung, count): &(String, u64)| format!("{rung} {}", count.saturating_mul(100) / sum.max(1));
    let rungs: Vec<String> = snapshot.rungs.iter().map(share_of).collect();
    let rungs = if rungs.is_empty() { "-".to_owned() } else { rungs.join("  ") + "  (%, of records)" };
    vec![
        title(&format!("seawall {address} {version}")),
        ScreenLine::with(format!("LEVEL {level}   in flight {in_flight}"), level_severity),
        ScreenLine::with(
            format!("rate {rate}  bad 1m {share} ({bad} of {all})  first content 1m {first}"),
            rate_severity,
        ),
        ScreenLine::new(format!("rungs 1m  {rungs}")),
    ]
}

fn spend(snapshot: &TopSnapshot, width: usize, is_focused: bool) -> Vec<ScreenLine> {
    let Some(spend) = &snapshot.spend else { return vec![ScreenLine::new("spend -")] };
    let mut text = match width {
        FULL_WIDTH.. => format!("spend today {} + held {}", total_cost(spend.posted), total_cost(spend.held)),
        _ => format!("spend {}", total_cost(spend.posted.saturating_add(spend.held))),
    };
    let mut severity = Attention::Fine;
    match spend.cap {
        None => text.push_str(", no daily budget"),
        Some(cap) => {
            let used = u128::from(spend.posted.saturating_add(spend.held));
            let percent = usize::try_from(used * 100 / u128::from(cap.max(1))).unwrap_or(usize::MAX);
            let room = width.saturating_sub(text.width() + total_cost(cap).width() + 14).min(26);
            let filled = (percent.min(100) * room) / 100;
            let bar = "#".repeat(filled) + &".".repeat(room - filled);
            text = format!("{text} of {} [{bar}] {percent}%", total_cost(cap));
            if percent >= 80 {
                severity = if percent >= 100 { Attention::Bad } else { Attention::Warning };
            }
        }
    }
    let mut lines = vec![ScreenLine::with(text, severity)];
    let tiers: Vec<String> =
        spend.nearly_spent.iter().map(|(tier, percent)| format!("! {tier} {percent}%")).collect();
    if width < FULL_WIDTH {
        // The share of the whole budget is on the line before.
    } else if !tiers.is_empty() {
        lines.push(ScreenLine::with(format!("      {}", tiers.join("  ")), Attention::Warning));
    } else if is_focused {
        lines.push(ScreenLine::new("      no tier has spent more than 80% of its budget"));
    }
    lines
}

/// Whether a table has all of its columns.
const fn is_full_table(width: usize) -> bool {
    width >= FULL_WIDTH
}

fn target_heading(width: usize) -> String {
    if is_full_table(width) {
        "TARGET      GRADE   STATE            SLOTS  QUEUE    P50    P95   ERR%  CAUSE".to_owned()
    } else {
        "TARGET      STATE            SLOTS  QUEUE   ERR%  CAUSE".to_owned()
    }
}

fn target_line(target: &TargetRow, width: usize) -> ScreenLine {
    let severity = match &*target.breaker {
        "open" => Attention::Bad,
        "half_open" => Attention::Warning,
        _ if target.cause != "-" => Attention::Warning,
        _ => Attention::Fine,
    };
    let retry =
        target.retry_after.map(|retry| format!(" try {}s", retry.div_ceil(1_000))).unwrap_or_default();
    let state = format!("{} {}{retry}", severity.mark(), target.breaker);
    let (used, limit) = target.in_flight;
    let slots = right_column(&format!("{used}/{limit}"), 6);
    let queue = right_column(&target.queue.to_string(), 5);
    let (failed, all) = target.failed;
    let errors = if all == 0 { "-".to_owned() } else { format!("{:.1}", failed as f64 * 100.0 / all as f64) };
    let errors = right_column(&errors, 5);
    let name = column(&target.name, 10);
    let text = if is_full_table(width) {
        let seconds = |millis: Option<u64>| {
            let text = millis.map_or_else(
                || "-".to_owned(),
                |millis| format!("{}.{:02}", millis / 1_000, millis % 1_000 / 10),
            );
            right_column(&text, 5)
        };
        let (p50, p95) = target.first_content;
        let [grade, state] = [column(&target.grade, 6), column(&state, 15)];
        format!(
            "{name}  {grade}  {state} {slots}  {queue}  {}  {}  {errors}  {}",
            seconds(p50),
            seconds(p95),
            target.cause
        )
    } else {
        format!("{name}  {} {slots}  {queue}  {errors}  {}", column(&state, 15), target.cause)
    };
    ScreenLine::with(text, severity)
}

fn rejections(snapshot: &TopSnapshot) -> ScreenLine {
    let (reasons, seconds) = &snapshot.rejected;
    let sum: u64 = reasons.iter().map(|(_, count)| count).sum();
    let named: Vec<String> =
        reasons.iter().take(4).map(|(reason, count)| format!("{reason} {count}")).collect();
    let window = if *seconds >= 290 { "5m".to_owned() } else { format!("{seconds}s") };
    let severity = if sum > 0 { Attention::Warning } else { Attention::Fine };
    ScreenLine::with(
        format!("REJECTED {window}  {sum}   {}", named.join("   ")).trim_end().to_owned(),
        severity,
    )
}

const CALLER_HEADING: &str = "CALLER 5m         TIER      REQUESTS  REJECTED  COST";

fn caller_line(caller: &CallerRow) -> ScreenLine {
    let text = format!(
        "{}  {}  {}  {}  {}",
        column(&short_caller(&caller.caller), 16),
        column(&caller.tier, 8),
        right_column(&caller.requests.to_string(), 8),
        right_column(&caller.rejected.to_string(), 8),
        request_cost(caller.cost)
    );
    ScreenLine::with(text, if caller.rejected > 0 { Attention::Warning } else { Attention::Fine })
}

/// The newest events, the newest first.
fn events(
    snapshot: &TopSnapshot,
    view: &ViewState,
    zone: Option<&LocalZone>,
    room: usize,
) -> Vec<ScreenLine> {
    let shown: Vec<_> = snapshot.events.iter().rev().filter(|event| view.shows(&event.text)).collect();
    if shown.is_empty() {
        return vec![ScreenLine::new("no events since this view was opened")];
    }
    let rows = if shown.len() > room { room.saturating_sub(1) } else { shown.len() };
    // The selection stays visible.
    let selected = shown.iter().position(|event| event.id.is_some() && event.id == view.selected);
    let from = selected.map_or(0, |selected| selected.saturating_sub(rows.saturating_sub(1)));
    let line = |event: &&super::snapshot::TopEvent| ScreenLine {
        text: format!("{} {} {}", shown_time(&event.time, view, zone), event.severity.mark(), event.text),
        severity: event.severity,
        is_selected: event.id.is_some() && event.id == view.selected,
    };
    let mut lines: Vec<ScreenLine> = shown.iter().skip(from).take(rows).map(line).collect();
    more(&mut lines, shown.len() - rows);
    lines
}

/// Charts, and the newest requests.
fn side_column(snapshot: &TopSnapshot, (width, height): (usize, usize)) -> Vec<String> {
    let rate = snapshot.rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
    let max = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let p99 = snapshot.first_content.map_or_else(|| "-".to_owned(), |(_, p99)| format!("{p99:.2}"));
    let mut lines = vec![
        format!("RATE /s 10 min  now {rate}  max {:.1}", max(&snapshot.rate_history)),
        chart(&snapshot.rate_history, width),
        String::new(),
        format!("FIRST CONTENT p99 10 min  now {p99}"),
        chart(&snapshot.p99_history, width),
        String::new(),
        "REQUESTS (ordinary ones are sampled)".to_owned(),
    ];
    let room = height.saturating_sub(lines.len());
    let newest = snapshot.records.iter().rev().take(room);
    lines.extend(newest.map(|record| {
        let outcome = text_of(record, "outcome", "-");
        let mark = Attention::of_outcome(outcome).mark();
        let time = clock_time(text_of(record, "time", "-"));
        let time = time.get(..8).unwrap_or(time);
        let who = text_of(record, "target", text_of(record, "reason", "-"));
        column(&format!("{time} {mark} {outcome} {} {who}", text_of(record, "tier", "-")), width)
    }));
    lines.resize(height, String::new());
    lines
}

/// The newest values as a row of signs, each a third of the greatest.
fn chart(values: &[f64], width: usize) -> String {
    let newest = &values[values.len().saturating_sub(width)..];
    let max = newest.iter().copied().fold(0.0, f64::max);
    let sign = |value: &f64| match value {
        value if max <= 0.0 || *value <= 0.0 => ' ',
        value if *value <= max / 3.0 => '.',
        value if *value <= max * 2.0 / 3.0 => ':',
        _ => '|',
    };
    newest.iter().map(sign).collect()
}
