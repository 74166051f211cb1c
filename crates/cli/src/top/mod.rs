//! `seawall top`.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `exposition` | values of the metrics page |
//! | `history` | from answers of the admin API to a snapshot |
//! | `snapshot` | what the screen shows, as plain values |
//! | `view` | the screen as lines: a pure function |
//! | `keys` | what keys do |
//! | `zone` | local time |

mod exposition;
mod history;
mod keys;
mod snapshot;
#[cfg(test)]
mod tests;
mod view;
mod zone;

use crate::CommandError;
use crate::admin::encode_segment;
use crate::explain::explanation;
use crate::gateway_client::{ClientError, GatewayArguments, GatewayClient};
use crate::output::{print, write_line};
use crate::record_text::{Attention, items};
use anyhow::Context as _;
use clap::Args;
use exposition::MetricsSample;
use history::{AdminSample, TopHistory};
use keys::{KeyAction, ViewState};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Span, Text};
use ratatui::widgets::Paragraph;
use seawall_config::parse_duration;
use seawall_gateway::TokioRuntime;
use seawall_pipeline::Timer as _;
use serde_json::{Value, json};
use snapshot::TopSnapshot;
use std::io::{self, IsTerminal as _};
use std::time::Duration;
use view::{ScreenLine, screen};
use zone::LocalZone;

/// The shortest pause between two redraws, and the usual one between two samples.
const REDRAW_INTERVAL: Duration = Duration::from_millis(250);
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
/// The size of a screen that is printed.
const PRINTED: (usize, usize) = (80, 24);

#[derive(Args)]
pub(crate) struct TopArguments {
    /// Time between two samples; with --json an object is printed each time.
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    every: Option<Duration>,
    #[command(flatten)]
    gateway: GatewayArguments,
}

fn interval(text: &str) -> Result<Duration, String> {
    let parsed = parse_duration(text).filter(|interval| *interval >= REDRAW_INTERVAL);
    parsed.ok_or_else(|| "must be a duration of at least 250ms, such as 1s".to_owned())
}

pub(crate) fn run(arguments: &TopArguments) -> Result<(), CommandError> {
    let mut source = TopSource { client: arguments.gateway.client()?, cursor: None };
    let clock = TokioRuntime::new();
    let interval = arguments.every.unwrap_or(SAMPLE_INTERVAL);
    if arguments.gateway.json {
        return print_objects(&mut source, arguments.every, clock);
    }
    let mut history = TopHistory::default();
    history.add(source.sample()?, clock.monotonic());
    if !io::stdout().is_terminal() {
        // Rates are differences, so that one sample has none.
        std::thread::park_timeout(REDRAW_INTERVAL);
        history.add(source.sample()?, clock.monotonic());
        let snapshot = history.snapshot(clock.monotonic());
        let zone = LocalZone::of_machine();
        let mut lines = screen(&snapshot, &ViewState::default(), zone.as_ref(), PRINTED);
        // Keys do nothing on paper.
        lines.pop();
        let uses_colours = arguments.gateway.uses_colours();
        let text: Vec<String> =
            lines.iter().map(|line| line.severity.paint(&line.text, uses_colours)).collect();
        return print(&format!("{}\n", text.join("\n").trim_end()));
    }
    let mut terminal =
        ratatui::try_init().context("cannot use the terminal").map_err(CommandError::Failed)?;
    let screen = TopScreen {
        source,
        history,
        view: ViewState::default(),
        zone: LocalZone::of_machine(),
        uses_colours: arguments.gateway.uses_colours(),
        clock,
    };
    let ended = screen.run(&mut terminal, interval);
    ratatui::restore();
    ended.context("the terminal failed").map_err(CommandError::Failed)
}

/// The endpoints of the admin API that the screen needs: one request each per sample.
struct TopSource {
    client: GatewayClient,
    cursor: Option<String>,
}

impl TopSource {
    fn sample(&mut self) -> Result<AdminSample, ClientError> {
        let after = self.cursor.as_ref().map(|cursor| format!("&after={cursor}")).unwrap_or_default();
        let page = self.client.get(&format!("/admin/requests?limit=500{after}"))?;
        let mut records = items(&page, "requests").to_vec();
        let next = if self.cursor.is_none() {
            // The newest are first in a listing without a cursor.
            records.reverse();
            &page["follow"]
        } else {
            &page["next"]
        };
        self.cursor = next.as_str().map(ToOwned::to_owned).or_else(|| self.cursor.take());
        // Metrics may be switched off; rates are then unknown.
        let metrics = self.client.get_text("/metrics").unwrap_or_default();
        Ok(AdminSample {
            status: self.client.get("/admin/status")?,
            targets: self.client.get("/admin/targets")?,
            spend: self.client.get("/admin/spend")?,
            metrics: MetricsSample::parse(&metrics),
            records,
        })
    }
}

/// Prints a sample as an object, once or each time.
fn print_objects(
    source: &mut TopSource,
    every: Option<Duration>,
    clock: TokioRuntime,
) -> Result<(), CommandError> {
    let mut history = TopHistory::default();
    loop {
        let sample = source.sample()?;
        let answers = [sample.status.clone(), sample.targets.clone(), sample.spend.clone()];
        history.add(sample, clock.monotonic());
        let snapshot = history.snapshot(clock.monotonic());
        match write_line(&object(answers, &snapshot).to_string()) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => {
                let error = anyhow::Error::new(error).context("cannot write to standard output");
                return Err(CommandError::Failed(error));
            }
        }
        match every {
            Some(every) => std::thread::park_timeout(every),
            None => return Ok(()),
        }
    }
}

/// The answers of the admin API, unrounded, and the rates between samples.
fn object([status, targets, spend]: [Value; 3], snapshot: &TopSnapshot) -> Value {
    let (rejected, seconds) = &snapshot.rejected;
    json!({
        "status": status,
        "targets": targets["targets"],
        "spend": spend,
        "requests_per_second": snapshot.rate,
        "rejected": rejected.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        "rejected_seconds": seconds,
        "first_content_seconds": snapshot.first_content.map(|(p50, p99)| json!({ "p50": p50, "p99": p99 })),
    })
}

struct TopScreen {
    source: TopSource,
    history: TopHistory,
    view: ViewState,
    zone: Option<LocalZone>,
    uses_colours: bool,
    clock: TokioRuntime,
}

impl TopScreen {
    /// Draws until the user quits. Waiting for a key is the timer.
    fn run(mut self, terminal: &mut ratatui::DefaultTerminal, interval: Duration) -> anyhow::Result<()> {
        let mut next_sample = self.clock.monotonic() + interval;
        let mut shown = self.history.snapshot(self.clock.monotonic());
        loop {
            let Self { view, zone, uses_colours, .. } = &self;
            terminal.draw(|frame| draw(frame, &shown, view, zone.as_ref(), *uses_colours))?;
            let now = self.clock.monotonic();
            if event::poll(REDRAW_INTERVAL.min(next_sample - now))?
                && let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
            {
                match self.view.press(key, &shown) {
                    KeyAction::Quit => return Ok(()),
                    KeyAction::Explain(id) => self.explain(&id),
                    KeyAction::Redraw => {}
                }
            }
            let now = self.clock.monotonic();
            if now >= next_sample {
                // A gateway that does not answer stays on the screen, with how long it has been silent.
                if let Ok(sample) = self.source.sample() {
                    self.history.add(sample, self.clock.monotonic());
                }
                next_sample = self.clock.monotonic() + interval;
            }
            // Paused pixels stand still, and counting goes on.
            if !self.view.is_paused {
                shown = self.history.snapshot(self.clock.monotonic());
            }
        }
    }

    fn explain(&mut self, id: &str) {
        let record = self.source.client.get(&format!("/admin/requests/{}", encode_segment(id)));
        self.view.explanation = Some(match record {
            Ok(record) => explanation(&record, false),
            Err(ClientError::Unreachable(error)) => format!("{error:#}"),
            Err(
                ClientError::Refused(message)
                | ClientError::Unknown(message)
                | ClientError::InvalidInput(message)
                | ClientError::Failed(message),
            ) => message,
        });
    }
}

/// Draws the screen with the terminal's own colours on its own background.
fn draw(
    frame: &mut Frame<'_>,
    snapshot: &TopSnapshot,
    view: &ViewState,
    zone: Option<&LocalZone>,
    uses_colours: bool,
) {
    let area = frame.area();
    let lines = screen(snapshot, view, zone, (area.width.into(), area.height.into()));
    let styled = |line: ScreenLine| {
        let style = match line.severity {
            Attention::Warning if uses_colours => Style::new().fg(Color::Yellow),
            Attention::Bad if uses_colours => Style::new().fg(Color::Red),
            _ => Style::new(),
        };
        let style = if line.is_selected { style.add_modifier(Modifier::REVERSED) } else { style };
        Span::styled(line.text, style)
    };
    frame.render_widget(Paragraph::new(Text::from_iter(lines.into_iter().map(styled))), area);
}
