//! The scoreboard as a picture: customers answered during each outage, through Seawall and through the plain proxy.

use crate::report::DemoReport;
use crate::score::OutcomeCounts;
use std::fmt::Write as _;

/// Pixels: of the whole picture, of a row of two bars, of the space above the rows, and where bars begin and end.
const WIDTH: u64 = 760;
const ROW: u64 = 52;
const TOP: u64 = 96;
const BARS: (u64, u64) = (220, 640);

const STYLE: &str = "text{font:14px ui-monospace,Menlo,Consolas,monospace;fill:#24292f}\
                     .title{font-size:18px;font-weight:600}.note{fill:#57606a}\
                     .seawall{fill:#1a7f5a}.plain{fill:#b6bcc4}.whole{fill:#eef0f2}";

impl DemoReport {
    /// An SVG picture of the results.
    #[must_use]
    pub fn svg(&self) -> String {
        let rows: Vec<(String, OutcomeCounts, OutcomeCounts)> =
            [("all customers".to_owned(), self.seawall.customers, self.plain.customers)]
                .into_iter()
                .chain(self.outages.iter().map(|one| (one.outage.title().to_owned(), one.seawall, one.plain)))
                .collect();
        let height = TOP + ROW * u64::try_from(rows.len()).unwrap_or(1) + 34;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             aria-label=\"Customers answered during five outages\">\n<style>{STYLE}</style>\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"8\" fill=\"#fff\"/>\n"
        );
        let mut line = |text: String| {
            svg.push_str(&text);
            svg.push('\n');
        };
        line(
            "<text x=\"20\" y=\"34\" class=\"title\">Customers answered while the models fail</text>"
                .to_owned(),
        );
        line(format!(
            "<rect x=\"20\" y=\"54\" width=\"12\" height=\"12\" class=\"seawall\"/><text x=\"38\" y=\"65\">Seawall</text>\
             <rect x=\"120\" y=\"54\" width=\"12\" height=\"12\" class=\"plain\"/><text x=\"138\" y=\"65\">plain reverse proxy</text>\
             <text x=\"330\" y=\"65\" class=\"note\">seawall demo --seconds {} --seed {}</text>",
            self.seconds, self.seed
        ));
        for (at, (title, seawall, plain)) in (0_u64..).zip(&rows) {
            let y = TOP + ROW * at;
            line(format!("<text x=\"20\" y=\"{}\">{title}</text>", y + 24));
            line(bar(y, "seawall", seawall) + &bar(y + 20, "plain", plain));
        }
        line(format!(
            "<text x=\"20\" y=\"{}\" class=\"note\">billed by the models: {} and {}; an answer counts if it was complete</text>",
            height - 14,
            dollars(self.seawall.billed),
            dollars(self.plain.billed)
        ));
        // Writing to a string cannot fail.
        let _ = write!(svg, "</svg>");
        svg.push('\n');
        svg
    }
}

fn bar(y: u64, class: &str, counts: &OutcomeCounts) -> String {
    let whole = BARS.1 - BARS.0;
    let width = (whole * counts.answered).checked_div(counts.sent).unwrap_or(0).min(whole);
    format!(
        "<rect x=\"{x}\" y=\"{y}\" width=\"{whole}\" height=\"16\" class=\"whole\"/>\
         <rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"16\" class=\"{class}\"/>\
         <text x=\"{label}\" y=\"{base}\">{} of {}</text>",
        counts.answered,
        counts.sent,
        x = BARS.0,
        label = BARS.1 + 10,
        base = y + 13
    )
}

fn dollars(nanos: u64) -> String {
    format!("${}.{:02}", nanos / 1_000_000_000, nanos % 1_000_000_000 / 10_000_000)
}
