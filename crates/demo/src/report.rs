//! The report: as text for people, as JSON for programs.

use crate::promise::{Ledger, Promise};
use crate::score::Counts;
use crate::timetable::Outage;
use seawall_core::money::Money;
use serde::Serialize;
use std::fmt::Write as _;
use std::time::Duration;

/// The results of a demonstration.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The seed of requests and faults.
    pub seed: u64,
    /// How long requests were sent.
    pub seconds: u64,
    /// The results through Seawall.
    pub seawall: SideReport,
    /// The results through the plain proxy.
    pub plain: SideReport,
    /// Seawall's ledger beside its models' bill.
    pub ledger: Ledger,
    /// Customers that were lost or cut at the restart because they took longer than the drain timeout. They do not
    /// count as a broken promise.
    pub beyond_the_drain: u64,
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
    pub shoppers: Counts,
    /// The results of the abusive client.
    pub flooder: Counts,
    /// The customers' time to the first text of a stream.
    pub first_text_ms: Option<FirstText>,
    /// The models' bill, in nano-dollars.
    pub billed: u64,
}

/// Percentiles in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FirstText {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
}

impl FirstText {
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
    pub seawall: Counts,
    /// Through the plain proxy.
    pub plain: Counts,
}

impl Report {
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
        let mut text = columns(&self.seawall.shoppers, &self.plain.shoppers);
        let mut row = |title: &str, seawall: &str, plain: &str| text.push_str(&line(title, seawall, plain));
        let waits = |pick: fn(FirstText) -> u64| {
            [&self.seawall, &self.plain]
                .map(|side| side.first_text_ms.map_or("-".to_owned(), |first| format!("{} ms", pick(first))))
        };
        let [seawall, plain] = waits(|first| first.p50);
        row("first text, half within", &seawall, &plain);
        let [seawall, plain] = waits(|first| first.p99);
        row("first text, 99 in 100 within", &seawall, &plain);
        let cents = |nanos: u64| format!("${}.{:04}", nanos / 1_000_000_000, nanos % 1_000_000_000 / 100_000);
        row("billed by the models", &cents(self.seawall.billed), &cents(self.plain.billed));
        row("posted in the books", &cents(self.ledger.books.posted), "no books");
        row("may be spent", &Money::from_nanos(self.ledger.cap).to_string(), "no limit");
        row("", "", "");
        row("the one who floods", "", "");
        let (seawall, plain) = (self.seawall.flooder, self.plain.flooder);
        row("  asked", &seawall.asked.to_string(), &plain.asked.to_string());
        row("  answered whole", &seawall.answered.to_string(), &plain.answered.to_string());
        let refused = |counts: &Counts| counts.refused_rightly.to_string();
        row("  refused, with a word on when", &refused(&seawall), &refused(&plain));
        row("", "", "");
        row("the shop, answered whole during", "", "");
        for outage in &self.outages {
            let of = |counts: &Counts| format!("{} of {}", counts.answered, counts.asked);
            row(&format!("  {}", outage.outage.title()), &of(&outage.seawall), &of(&outage.plain));
        }
        text.push_str("\nWhat Seawall promises:\n");
        for promise in &self.promises {
            let held = if promise.held { "held  " } else { "BROKEN" };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {held}  {} ({})", promise.says, promise.counted);
        }
        text
    }
}

/// The results of customers, side by side.
pub(crate) fn columns(seawall: &Counts, plain: &Counts) -> String {
    let mut text = line("the shop", "Seawall", "plain proxy");
    type Row = (&'static str, fn(&Counts) -> u64);
    let rows: [Row; 9] = [
        ("asked", |counts| counts.asked),
        ("answered whole", |counts| counts.answered),
        ("broken off, and told so", |counts| counts.broken_off),
        ("refused", |counts| counts.refused_rightly + counts.refused_wrongly),
        ("lost", |counts| counts.lost),
        ("hung", |counts| counts.hung),
        ("ended falsely", |counts| counts.ended_falsely),
        ("  and looked complete", |counts| counts.looked_complete),
        ("under way", Counts::under_way),
    ];
    for (title, pick) in rows {
        text.push_str(&line(title, &pick(seawall).to_string(), &pick(plain).to_string()));
    }
    text
}

fn line(title: &str, seawall: &str, plain: &str) -> String {
    format!("{title:<32}{seawall:>12}{plain:>14}").trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::{FirstText, OutageReport, Report, SideReport};
    use crate::promise::{Facts, judged};
    use crate::score::Counts;
    use crate::timetable::Outage;
    use serde_json::Value;
    use std::time::Duration;

    fn report() -> Report {
        let shoppers = Counts { asked: 7, answered: 5, hung: 1, ..Counts::default() };
        let millis = Duration::from_millis;
        let side = SideReport {
            shoppers,
            flooder: Counts { asked: 4, refused_rightly: 4, ..Counts::default() },
            first_text_ms: Some(FirstText::new((millis(612), millis(1_234)))),
            billed: 123_456_789,
        };
        let outages = vec![OutageReport { outage: Outage::StreamsCut, seawall: shoppers, plain: shoppers }];
        let promises = judged(&Facts { shoppers, ..Facts::default() });
        let plain = SideReport { first_text_ms: None, ..side };
        let ledger = super::Ledger { cap: 1_250_000_000, ..super::Ledger::default() };
        Report {
            seed: 7,
            seconds: 60,
            seawall: side,
            plain,
            ledger,
            beyond_the_drain: 0,
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
                "beyond_the_drain",
                "ledger",
                "outages",
                "plain",
                "promises",
                "seawall",
                "seconds",
                "seed"
            ]
        );
        assert_eq!(json["seawall"]["shoppers"]["hung"], 1);
        assert_eq!(json["seawall"]["flooder"]["refused_rightly"], 4);
        assert_eq!(json["seawall"]["first_text_ms"]["p99"], 1_234);
        assert_eq!(json["plain"]["first_text_ms"], Value::Null);
        assert_eq!(json["ledger"]["cap"], 1_250_000_000_u64);
        assert_eq!(json["ledger"]["books"]["held"], 0);
        assert_eq!(json["ledger"]["told_billed"]["calls"], 0);
        assert_eq!(json["outages"][0]["outage"], "streams_cut");
        let hung = json["promises"].as_array().unwrap().iter().find(|one| one["name"] == "nobody_hung");
        assert_eq!(hung.unwrap()["held"], false);
        assert_eq!(hung.unwrap()["counted"], "1 of 7 hung");
    }

    #[test]
    fn people_read_columns_and_promises() {
        let text = report().text();
        for wanted in [
            "the shop                             Seawall   plain proxy\n",
            "answered whole                             5             5\n",
            "first text, half within               612 ms             -\n",
            "billed by the models                 $0.1234       $0.1234\n",
            "may be spent                           $1.25      no limit\n",
            "  streams cut                         5 of 7        5 of 7\n",
            "  BROKEN  nobody was left waiting (1 of 7 hung)\n",
            "  held    nothing is still set aside at the end ($0.00 set aside)\n",
        ] {
            assert!(text.contains(wanted), "{wanted:?} is not in\n{text}");
        }
    }

    #[test]
    fn the_exit_code_says_whether_all_held() {
        assert_eq!(report().exit_code(), 1);
        assert_eq!(Report { all_held: true, ..report() }.exit_code(), 0);
    }
}
