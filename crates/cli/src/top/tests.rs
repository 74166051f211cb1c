//! The screen at three sizes, as a terminal shows it.

use super::draw;
use super::keys::{TimeZoneChoice, TopPanel, ViewState};
use super::snapshot::{CallerRow, SpendSummary, TargetRow, TopEvent, TopSnapshot};
use super::view::screen;
use super::zone::LocalZone;
use crate::record_text::Attention;
use proptest::prelude::{any, prop, prop_assert, proptest};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Color;
use serde_json::json;
use unicode_width::UnicodeWidthStr as _;

fn snapshot() -> TopSnapshot {
    let target = |name: &str, grade: &str, breaker: &str, retry_after, cause: &str, failed| TargetRow {
        name: name.to_owned(),
        grade: grade.to_owned(),
        breaker: breaker.to_owned(),
        retry_after,
        in_flight: (37, 60),
        queue: 2,
        first_content: (Some(320), Some(710)),
        failed: (failed, 1_000),
        cause: cause.to_owned(),
    };
    let caller = |caller: &str, tier: &str, requests, rejected, cost| CallerRow {
        caller: caller.to_owned(),
        tier: tier.to_owned(),
        requests,
        rejected,
        cost,
    };
    let event = |time: &str, severity, text: &str, id: Option<&str>| TopEvent {
        time: format!("2026-11-16T{time}.000Z"),
        severity,
        text: text.to_owned(),
        id: id.map(ToOwned::to_owned),
    };
    TopSnapshot {
        address: "127.0.0.1:7700".to_owned(),
        version: "0.5.0".to_owned(),
        uptime: 3 * 86_400 + 4 * 3_600,
        time: "2026-11-16T13:12:07.412Z".to_owned(),
        level: "normal".to_owned(),
        rate: Some(41.23),
        bad: (49, 2_473),
        first_content: Some((0.62, 2.31)),
        in_flight: 37,
        rungs: vec![("fast_model".to_owned(), 86), ("fresh_cache".to_owned(), 8), ("apology".to_owned(), 6)],
        spend: Some(SpendSummary {
            posted: 3_912_400_000_000,
            held: 14_200_000_000,
            cap: Some(5_000_000_000_000),
            nearly_spent: vec![("standard".to_owned(), 84)],
        }),
        targets: vec![
            target("sonnet", "strong", "open", Some(21_500), "throttled", 382),
            target("haiku", "fast", "closed", None, "-", 1),
            target("漫画モデル", "fast", "half_open", None, "probes_in_flight", 0),
        ],
        rejected: (vec![("rate_limited".to_owned(), 1_102), ("forbidden".to_owned(), 88)], 300),
        callers: vec![
            caller("77aa000000000009", "guest", 1_204, 1_102, 210_000_000),
            caller("9f3c41d07ab2e655", "standard", 120, 0, 611_020_000),
        ],
        events: vec![
            event("13:05:40", Attention::Warning, "level normal -> elevated", None),
            event(
                "13:09:41",
                Attention::Bad,
                "rejected rate_limited: minute, 12 requests per minute",
                Some("req_1"),
            ),
            event("13:12:07", Attention::Warning, "degraded sonnet failed: throttled (429)", Some("req_2")),
        ],
        rate_history: (0..90).map(|step| f64::from(step % 30)).collect(),
        p99_history: (0..90).map(|step| f64::from(step % 7)).collect(),
        records: vec![json!({
            "time": "2026-11-16T13:12:07.412Z", "outcome": "degraded", "tier": "standard", "target": "haiku"
        })],
        ..TopSnapshot::default()
    }
}

fn tokyo() -> LocalZone {
    LocalZone { name: "JST".to_owned(), offset: 540 }
}

/// What a terminal of this size shows, and the colours that it uses.
fn shown(view: &ViewState, (width, height): (u16, u16), uses_colours: bool) -> (String, Vec<Color>) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, &snapshot(), view, Some(&tokyo()), uses_colours)).unwrap();
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for row in 0..height {
        let mut column = 0;
        let mut line = String::new();
        while column < width {
            let symbol = buffer[(column, row)].symbol();
            line.push_str(symbol);
            // A wide sign takes the next cell, too.
            column += u16::try_from(symbol.width().max(1)).unwrap();
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let mut colours: Vec<Color> = buffer.content().iter().map(|cell| cell.fg).collect();
    colours.sort_by_key(|colour| format!("{colour:?}"));
    colours.dedup();
    (text, colours)
}

#[test]
fn the_screen_is_drawn_at_three_sizes() {
    let view = ViewState { zone: TimeZoneChoice::Both, ..ViewState::default() };
    for (size, expected) in [
        ((60, 16), include_str!("screens/60x16.txt")),
        ((80, 24), include_str!("screens/80x24.txt")),
        ((140, 40), include_str!("screens/140x40.txt")),
    ] {
        let (text, _) = shown(&view, size, true);
        assert!(text == expected, "{size:?}\n>>>\n{text}<<<");
    }
}

#[test]
fn colours_are_those_of_the_terminal_and_are_left_out_on_request() {
    let (_, colours) = shown(&ViewState::default(), (80, 24), true);
    assert_eq!(colours, [Color::Red, Color::Reset, Color::Yellow]);
    assert_eq!(shown(&ViewState::default(), (80, 24), false).1, [Color::Reset]);
}

#[test]
fn a_silent_gateway_and_an_explanation_are_shown() {
    let silent = TopSnapshot { silent_for: 16, ..snapshot() };
    let lines = screen(&silent, &ViewState::default(), None, (80, 24));
    assert!(lines[0].text.contains("NO ANSWER for 16 s") && lines[0].severity == Attention::Bad);
    let explained =
        ViewState { explanation: Some("request  req_1\noutcome".to_owned()), ..ViewState::default() };
    let (text, _) = shown(&explained, (80, 24), false);
    assert!(text.starts_with("request  req_1\noutcome\n") && text.ends_with("Esc back  q back\n"), "{text}");
    let filtered = ViewState { filter: "haiku".to_owned(), ..ViewState::default() };
    let (text, _) = shown(&filtered, (80, 24), false);
    assert!(text.contains("\nhaiku ") && !text.contains("\nsonnet "), "{text}");
}

proptest! {
    #[test]
    fn every_size_and_every_text_fits(
        width in 1_usize..200,
        height in 1_usize..60,
        name in "\\PC{0,40}",
        numbers in any::<[u64; 6]>(),
        panel in prop::sample::select(&[TopPanel::Events, TopPanel::Targets, TopPanel::Callers, TopPanel::Spend][..]),
    ) {
        let mut snapshot = snapshot();
        snapshot.uptime = numbers[0];
        snapshot.bad = (numbers[1], numbers[2]);
        snapshot.spend = Some(SpendSummary { posted: numbers[3], held: numbers[4], cap: Some(numbers[5]), nearly_spent: Vec::new() });
        snapshot.targets[0].name.clone_from(&name);
        snapshot.events[0].text = name;
        let view = ViewState { panel, ..ViewState::default() };
        let lines = screen(&snapshot, &view, None, (width, height));
        prop_assert!(lines.len() == height);
        for line in lines {
            prop_assert!(line.text.width() <= width, "{}", line.text);
        }
    }
}
