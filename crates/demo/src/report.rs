//! The report: as text for people, as JSON for programs.

use crate::promise::{LedgerComparison, Promise};
use crate::schedule::Outage;
use crate::score::OutcomeCounts;
use seawall_core::money::Money;
use serde::Serialize;
use std::fmt::Write as _;
use std::time::Duration;

/// The results of a demonstration.
#[derive(Clone, Debug, Serialize)]
pub struct DemoReport {
    /// The seed of requests and faults.
    pub seed: u64,
    /// How long requests were sent.
    pub seconds: u64,
    /// The results through Seawall.
    pub seawall: SideReport,
    /// The results through the plain proxy.
    pub plain: SideReport,
    /// Seawall's ledger beside its models' bill.
    pub ledger: LedgerComparison,
    /// Customers that were lost or cut at the restart because they took longer than the drain timeout. They do not
    /// count as a broken promise.
    pub drain_exceeded: u64,
    /// Results by outage.
    pub outages: Vec<OutageReport>,
    /// What Seawall promises.
    pub promises: Vec<Promise>,
    /// Whether every promise held.
    pub all_held: bool,
}

/// The results of one side.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SideReport {
    /// The results of customers.
    pub customers: OutcomeCounts,
    /// The results of the abusive client.
    pub abusive_client: OutcomeCounts,
    /// The customers' time to the first text of a stream.
    pub time_to_first_text_ms: Option<LatencyPercentiles>,
    /// The models' bill, in nano-dollars.
    pub billed: u64,
}

/// Percentiles in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LatencyPercentiles {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
}

impl LatencyPercentiles {
    pub(crate) fn new((p50, p99): (Duration, Duration)) -> Self {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self { p50: millis(p50), p99: millis(p99) }
    }
}

/// The results of customers during one outage.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct OutageReport {
    /// The outage.
    pub outage: Outage,
    /// Through Seawall.
    pub seawall: OutcomeCounts,
    /// Through the plain proxy.
    pub plain: OutcomeCounts,
}

impl DemoReport {
    /// The exit status: 0 if every promise held, 1 if not.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        if self.all_held { 0 } else { 1 }
    }

    /// One JSON object, for programs.
    #[must_use]
    pub fn json(&self) -> String {
        // These types can always be serialised.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// A text, for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = customer_table(&self.seawall.customers, &self.plain.customers);
        let mut row =
            |title: &str, seawall: &str, plain: &str| text.push_str(&table_row(title, seawall, plain));
        let percentile = |pick: fn(LatencyPercentiles) -> u64| {
            [&self.seawall, &self.plain].map(|side| {
                side.time_to_first_text_ms.map_or("-".to_owned(), |first| format!("{} ms", pick(first)))
            })
        };
        let [seawall, plain] = percentile(|first| first.p50);
        row("time to first text, p50", &seawall, &plain);
        let [seawall, plain] = percentile(|first| first.p99);
        row("time to first text, p99", &seawall, &plain);
        let cents = |nanos: u64| format!("${}.{:04}", nanos / 1_000_000_000, nanos % 1_000_000_000 / 100_000);
        row("billed by the models", &cents(self.seawall.billed), &cents(self.plain.billed));
        row("posted to the ledger", &cents(self.ledger.balance.posted), "no ledger");
        row("daily budget", &Money::from_nanos(self.ledger.cap).to_string(), "no limit");
        row("", "", "");
        row("abusive client", "", "");
        let (seawall, plain) = (self.seawall.abusive_client, self.plain.abusive_client);
        row("  sent", &seawall.sent.to_string(), &plain.sent.to_string());
        row("  answered", &seawall.answered.to_string(), &plain.answered.to_string());
        let refused = |counts: &OutcomeCounts| counts.rejected_as_abuse.to_string();
        row("  rejected with retry-after", &refused(&seawall), &refused(&plain));
        row("", "", "");
        row("customers answered during", "", "");
        for outage in &self.outages {
            let of = |counts: &OutcomeCounts| format!("{} of {}", counts.answered, counts.sent);
            row(&format!("  {}", outage.outage.title()), &of(&outage.seawall), &of(&outage.plain));
        }
        text.push_str("\nWhat Seawall promises:\n");
        for promise in &self.promises {
            let held = if promise.held { "held  " } else { "BROKEN" };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {held}  {} ({})", promise.statement, promise.evidence);
        }
        text
    }
}

/// The results of customers, side by side.
pub(crate) fn customer_table(seawall: &OutcomeCounts, plain: &OutcomeCounts) -> String {
    let mut text = table_row("customers", "Seawall", "plain proxy");
    type Row = (&'static str, fn(&OutcomeCounts) -> u64);
    let rows: [Row; 9] = [
        ("sent", |counts| counts.sent),
        ("answered", |counts| counts.answered),
        ("interrupted with an error", |counts| counts.interrupted),
        ("rejected", |counts| counts.rejected_as_abuse + counts.rejected_unexpectedly),
        ("lost", |counts| counts.lost),
        ("hung", |counts| counts.hung),
        ("truncated", |counts| counts.truncated),
        ("  as if complete", |counts| counts.falsely_complete),
        ("in flight", OutcomeCounts::in_flight),
    ];
    for (title, pick) in rows {
        text.push_str(&table_row(title, &pick(seawall).to_string(), &pick(plain).to_string()));
    }
    text
}

fn table_row(title: &str, seawall: &str, plain: &str) -> String {
    format!("{title:<32}{seawall:>12}{plain:>14}").trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::{DemoReport, LatencyPercentiles, OutageReport, SideReport};
    use crate::promise::{PromiseInput, check_promises};
    use crate::schedule::Outage;
    use crate::score::OutcomeCounts;
    use serde_json::Value;
    use std::time::Duration;

    fn report() -> DemoReport {
        let customers = OutcomeCounts { sent: 7, answered: 5, hung: 1, ..OutcomeCounts::default() };
        let millis = Duration::from_millis;
        let side = SideReport {
            customers,
            abusive_client: OutcomeCounts { sent: 4, rejected_as_abuse: 4, ..OutcomeCounts::default() },
            time_to_first_text_ms: Some(LatencyPercentiles::new((millis(612), millis(1_234)))),
            billed: 123_456_789,
        };
        let outages = vec![OutageReport { outage: Outage::StreamsCut, seawall: customers, plain: customers }];
        let promises = check_promises(&PromiseInput { customers, ..PromiseInput::default() });
        let plain = SideReport { time_to_first_text_ms: None, ..side };
        let ledger = super::LedgerComparison { cap: 1_250_000_000, ..super::LedgerComparison::default() };
        DemoReport {
            seed: 7,
            seconds: 60,
            seawall: side,
            plain,
            ledger,
            drain_exceeded: 0,
            outages,
            promises,
            all_held: false,
        }
    }

    #[test]
    fn json_is_one_object_on_one_line_with_every_number() {
        let json = report().json();
        assert!(!json.contains('\n'));
        let json: Value = serde_json::from_str(&json).unwrap();
        let mut keys: Vec<&String> = json.as_object().unwrap().keys().collect();
        keys.sort();
        assert_eq!(
            keys,
            [
                "all_held",
                "drain_exceeded",
                "ledger",
                "outages",
                "plain",
                "promises",
                "seawall",
                "seconds",
                "seed"
            ]
        );
        assert_eq!(json["seawall"]["customers"]["hung"], 1);
        assert_eq!(json["seawall"]["abusive_client"]["rejected_as_abuse"], 4);
        assert_eq!(json["seawall"]["time_to_first_text_ms"]["p99"], 1_234);
        assert_eq!(json["plain"]["time_to_first_text_ms"], Value::Null);
        assert_eq!(json["ledger"]["cap"], 1_250_000_000_u64);
        assert_eq!(json["ledger"]["balance"]["held"], 0);
        assert_eq!(json["ledger"]["reported_billed"]["calls"], 0);
        assert_eq!(json["outages"][0]["outage"], "streams_cut");
        let hung = json["promises"].as_array().unwrap().iter().find(|one| one["name"] == "no_request_hung");
        assert_eq!(hung.unwrap()["held"], false);
        assert_eq!(hung.unwrap()["evidence"], "1 of 7 hung");
    }

    #[test]
    fn people_read_columns_and_promises() {
        let text = report().text();
        for expected in [
            "customers                            Seawall   plain proxy\n",
            "answered                                   5             5\n",
            "time to first text, p50               612 ms             -\n",
            "billed by the models                 $0.1234       $0.1234\n",
            "daily budget                           $1.25      no limit\n",
            "  streams cut                         5 of 7        5 of 7\n",
            "  BROKEN  no request hung (1 of 7 hung)\n",
            "  held    no reservation is left at the end ($0.00 held)\n",
        ] {
            assert!(text.contains(expected), "{expected:?} is not in\n{text}");
        }
    }

    #[test]
    fn the_picture_shows_every_outage_for_both_sides() {
        let svg = report().svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        assert!(svg.contains(">all customers<") && svg.contains(">streams cut<"), "{svg}");
        assert_eq!(svg.matches(">5 of 7<").count(), 4, "{svg}");
        // Five of seven of 420 pixels.
        assert_eq!(svg.matches("width=\"300\"").count(), 4, "{svg}");
        let empty = OutcomeCounts::default();
        let side = SideReport { customers: empty, ..report().seawall };
        assert!(DemoReport { seawall: side, ..report() }.svg().contains(">0 of 0<"));
    }

    #[test]
    fn the_exit_code_says_whether_all_held() {
        assert_eq!(report().exit_code(), 1);
        assert_eq!(DemoReport { all_held: true, ..report() }.exit_code(), 0);
    }
}
