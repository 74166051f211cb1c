//! Names: a type name means one type in the whole workspace, and names that were given up stay out.

use crate::{expect_none, files, read};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// Type names that two crates have on purpose, with the reason.
const SHARED_NAMES: &[(&str, &str)] = &[];

/// Identifiers that were replaced by the words of the field: types, modules, functions and settings keys.
const REPLACED: &[&str] = &[
    "Told",
    "Heard",
    "Said",
    "Asked",
    "Wanted",
    "Taken",
    "Got",
    "Made",
    "Shown",
    "Sight",
    "Keeper",
    "Keeping",
    "Door",
    "Way",
    "Place",
    "Line",
    "Shelf",
    "Walk",
    "Hand",
    "Talk",
    "Telling",
    "SpokenRequest",
    "SpokenStream",
    "Voice",
    "ChatVoice",
    "Verdict",
    "Law",
    "ComeBack",
    "ComeBackRule",
    "Books",
    "QuotaBook",
    "Caretaker",
    "Desk",
    "Purse",
    "Broke",
    "TooDear",
    "Untellable",
    "MoreThanADay",
    "NoPlace",
    "Occasion",
    "Usual",
    "LateDirectory",
    "Standing",
    "Nobody",
    "Trouble",
    "Tally",
    "Flights",
    "FlightBoard",
    "AwayOptions",
    "LentBooks",
    "ClaimAsk",
    "LeaseAsk",
    "MoneyAsk",
    "ProbeAsk",
    "QuotaAsk",
    "KeptAnswer",
    "NotStarted",
    "BrokeMidStream",
    "BrokeOff",
    "HeldBack",
    "IdentityOrigin",
    "InboundCall",
    "NoSlot",
    "HeadLines",
    "StallWatch",
    "typical_hold",
    "falls_back",
    "enter_core",
    "told",
    "heard",
    "come_back",
    "everybody",
    "caretaker",
    "shelf",
    "keeper",
    "late_directory",
    "set_aside",
    "held_back",
    "most_retries",
    "least_attempt",
    "header_time",
    "body_time",
    "drain_time",
    "operation_time",
    "directory_time",
    "start_time",
    "least_for_fast",
    "most_wait",
    "most_lead",
    "most_alone",
    "most_waiters",
    "fresh_for",
    "flush_after",
    "open_growth",
    "open_cap",
    "directory_timeout",
    "session_max_turns",
    "off_peak_tier_ceiling",
    "off_peak_tier_ceiling_enabled",
    "ShutdownSignal",
    "VerifiedCredentialKind",
    "DailyBudgetExceeded",
    "ExceedsBudget",
    "AttemptStatus",
    "RequestTotals",
    "AccessLog",
    "TelemetryObserver",
    "QuotaCost",
    "FrameStream",
    "AdmissionQueue",
    "ServiceLevel",
    "HeldBytes",
    "BodyHolder",
    "SlotHolder",
    "QueueHolder",
    "Unanswered",
    "Mailbox",
    "EventAccount",
    "SeveralKinds",
    "Ejected",
    "AddressShare",
    "is_budget_exhausted",
    "has_output",
    "limit_resets",
    "would_limit",
    "stream_gap",
];

/// Labels in logs, metrics and admin answers, and keys in settings texts, that were replaced.
const REPLACED_LABELS: &[&str] = &[
    "more_than_a_day",
    "cannot_be_asked",
    "not_started",
    "broke_mid_stream",
    "broke_off",
    "books_cannot_be_written",
    "seawall_shared_store_here",
    "decided_alone",
    "no_such_thing",
    "set_aside",
    "held_back",
    "took_us",
    "others_ask",
    "most_retries",
    "drain_time",
    "header_time",
    "limits.everybody",
    "limits.hint",
    "retry.hint",
    "cache.flights",
    "store.folder",
    "callers.directory_timeout",
    "store.session.max_turns",
    "off_peak_tier_ceiling",
    "would_limit",
    "ejected",
    "ejected_ms",
    "credential_several_kinds",
    "directory_unavailable",
    "seawall_directory_fallbacks_total",
    "seawall_log_lines_dropped_total",
    "seawall_would_limit_total",
    "seawall_target_ejected",
    "seawall_pressure",
    "stream_gap",
    "deadlines.first_text",
    "key_shape",
];

/// A type that others than its own module can name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct VisibleType(String);

#[derive(Default)]
struct Source {
    types: BTreeSet<VisibleType>,
    identifiers: BTreeSet<String>,
    texts: Vec<String>,
}

/// Reads a source file without its test modules.
fn read_source(text: &str) -> Source {
    let mut source = Source::default();
    if let Ok(tokens) = text.parse() {
        collect(tokens, &mut source);
    }
    source
}

fn collect(tokens: TokenStream, source: &mut Source) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let (mut is_test, mut is_visible) = (false, false);
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token {
            TokenTree::Punct(sign) if sign.as_char() == '#' => {
                if let Some(TokenTree::Group(attribute)) = tokens.get(at + 1) {
                    let text = attribute.stream().to_string();
                    is_test |= text.starts_with("cfg") && text.contains("test");
                    at += 1;
                }
            }
            TokenTree::Punct(sign) if sign.as_char() == ';' => (is_test, is_visible) = (false, false),
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                if !is_test {
                    collect(group.stream(), source);
                }
                (is_test, is_visible) = (false, false);
            }
            TokenTree::Group(group) => collect(group.stream(), source),
            TokenTree::Ident(word) if word == "pub" => is_visible = true,
            TokenTree::Ident(word) => {
                let name = tokens.get(at + 1).map(ToString::to_string).unwrap_or_default();
                let is_type = ["struct", "enum", "trait", "union", "type"].iter().any(|kind| word == kind);
                if is_type
                    && is_visible
                    && !is_test
                    && name.starts_with(|sign: char| sign.is_ascii_uppercase())
                {
                    source.types.insert(VisibleType(name));
                }
                source.identifiers.insert(word.to_string());
            }
            TokenTree::Literal(literal) => source.texts.push(literal.to_string()),
            TokenTree::Punct(_) => {}
        }
        at += 1;
    }
}

/// A message for each type name that more than one file defines.
fn defined_twice(sources: &BTreeMap<String, Source>, allowed: &[&str]) -> Vec<String> {
    let mut homes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, source) in sources {
        for VisibleType(name) in &source.types {
            homes.entry(name).or_default().push(path);
        }
    }
    let is_violation = |(name, homes): &(&str, Vec<&str>)| homes.len() > 1 && !allowed.contains(name);
    homes
        .into_iter()
        .filter(is_violation)
        .map(|(name, homes)| format!("{name}: {}", homes.join(", ")))
        .collect()
}

/// A message for each file that has one of these identifiers.
fn still_named(sources: &BTreeMap<String, Source>, replaced: &[&str]) -> Vec<String> {
    let mut violations = Vec::new();
    for (path, source) in sources {
        let found = replaced.iter().filter(|name| source.identifiers.contains(**name));
        violations.extend(found.map(|name| format!("{path}: {name}")));
    }
    violations
}

/// Whether a text has this word, and not only as a part of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let is_edge = |sign: Option<char>| !sign.is_some_and(|sign| sign.is_alphanumeric() || sign == '_');
    text.match_indices(word).any(|(at, _)| {
        is_edge(text[..at].chars().next_back()) && is_edge(text[at + word.len()..].chars().next())
    })
}

/// A message for each file whose texts have one of these labels.
fn still_labelled(sources: &BTreeMap<String, Source>, labels: &[&str]) -> Vec<String> {
    let mut violations = Vec::new();
    for (path, source) in sources {
        let has = |label: &&&str| source.texts.iter().any(|text| has_word(text, label));
        violations.extend(labels.iter().filter(has).map(|label| format!("{path}: {label}")));
    }
    violations
}

/// The sources of the workspace that are not tests.
fn sources() -> anyhow::Result<BTreeMap<String, Source>> {
    let is_source = |path: &String| {
        let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
        path.ends_with(".rs") && !is_test && !path.starts_with("fuzz/")
    };
    files()?
        .into_iter()
        .filter(is_source)
        .map(|path| Ok((path.clone(), read_source(&read(&path)?))))
        .collect()
}

#[test]
fn a_type_name_is_unique_in_the_workspace() -> anyhow::Result<()> {
    let allowed: Vec<&str> = SHARED_NAMES.iter().map(|(name, _)| *name).collect();
    expect_none(&defined_twice(&sources()?, &allowed))
}

#[test]
fn names_that_were_replaced_stay_out() -> anyhow::Result<()> {
    let sources = sources()?;
    let mut violations = still_named(&sources, REPLACED);
    violations.extend(still_labelled(&sources, REPLACED_LABELS));
    expect_none(&violations)
}

#[test]
fn the_rules_notice_violations() {
    let made_up = |text: &str| read_source(text);
    let first = made_up("pub struct Same; struct Private; #[cfg(test)] mod tests { pub struct Tested; }");
    let second = made_up(
        "pub(crate) enum Same { A } pub struct Tested; fn told() { log(\"is here\", \"hereafter\"); }",
    );
    let sources = BTreeMap::from([("a.rs".to_owned(), first), ("b.rs".to_owned(), second)]);
    assert_eq!(defined_twice(&sources, &[]), ["Same: a.rs, b.rs"]);
    assert!(defined_twice(&sources, &["Same"]).is_empty());
    assert_eq!(still_named(&sources, &["told", "tell"]), ["b.rs: told"]);
    assert_eq!(still_labelled(&sources, &["here", "after"]), ["b.rs: here"]);
}
