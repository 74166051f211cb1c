//! Output that is billed and not shown, and usage that is invalid.

use crate::output::{Stand, bytes, stand, stand_with};
use crate::shop::{FaceOperation, Numbers, PRIME, Seen, at_face};
use seawall_core::money::{Money, Usage};
use seawall_core::tokens::OutputLimit;
use seawall_model::engine::Fault;
use seawall_pipeline::RequestOutcome;
use seawall_pipeline::dialect::Face;
use seawall_wire::dialect::DialectId;
use std::time::Duration;

/// Invalid values in place of usage figures.
pub(crate) const GARBAGE: [&str; 8] =
    ["-1", "1.5", "1e400", "18446744073709551616", "\"many\"", "{}", "[7]", "null"];

/// More than any model generates in a second.
const LIMIT: u64 = 4_000;

/// A question that allows a long answer, with this field.
fn question(face: Face, field: &str) -> (FaceOperation, String) {
    let (operation, body) = at_face(face, true);
    let body = body.replace(":100", &format!(":{LIMIT}"));
    let place = if face == Face::GEMINI { "\"generationConfig\":{" } else { "{" };
    (operation, body.replacen(place, &format!("{place}{field}"), 1))
}

/// Sends a question, disconnects after the beginning of the answer, and returns what was posted.
fn left(stand: &Stand, face: Face, field: &str) -> (Usage, Money) {
    let shop = &stand.shop;
    shop.ask_face_at(shop.world.now(), PRIME, question(face, field), Some(4));
    shop.world.run();
    let attempts = shop.attempts();
    assert_eq!(attempts.len(), 1, "{face:?} {field}");
    assert_eq!(shop.records()[0].outcome, RequestOutcome::Abandoned, "{face:?} {field}");
    let (.., usage, cost) = attempts[0].clone();
    assert!(stand.bill() <= cost, "{face:?} {field}: {} > {cost}", stand.bill());
    (usage, cost)
}

fn with_window(dialect: DialectId) -> Stand {
    stand_with(dialect, None, &Numbers { window: Some(200_000), ..Numbers::default() })
}

/// Request fields at each face, and whether they cause output that is billed and not shown.
const FIELDS: [(Face, &str, bool); 22] = [
    (Face::ANTHROPIC_MESSAGES, "", false),
    (Face::ANTHROPIC_MESSAGES, r#""thinking":{"type":"enabled","budget_tokens":1024},"#, true),
    (Face::ANTHROPIC_MESSAGES, r#""thinking":{"type":"adaptive"},"#, true),
    (Face::ANTHROPIC_MESSAGES, r#""thinking":{"type":"disabled"},"#, false),
    (Face::ANTHROPIC_MESSAGES, r#""metadata":{"thinking":{"type":"enabled"}},"#, false),
    (Face::ANTHROPIC_MESSAGES, r#""tools":[{"type":"web_search_20250305","name":"w","max_uses":1}],"#, true),
    (Face::OPENAI_CHAT, "", false),
    (Face::OPENAI_CHAT, r#""reasoning_effort":"high","#, true),
    (Face::OPENAI_CHAT, r#""reasoning_effort":"none","#, false),
    (Face::OPENAI_CHAT, r#""reasoning":{"effort":"low"},"#, true),
    (Face::OPENAI_CHAT, r#""web_search_options":{},"#, true),
    (Face::BEDROCK_INVOKE, "", false),
    (Face::BEDROCK_INVOKE, r#""thinking":{"type":"adaptive"},"#, true),
    (Face::BEDROCK_INVOKE, r#""thinking":{"type":"disabled"},"#, false),
    (Face::BEDROCK_CONVERSE, "", false),
    (Face::BEDROCK_CONVERSE, r#""additionalModelRequestFields":{"thinking":{"type":"enabled"}},"#, true),
    (
        Face::BEDROCK_CONVERSE,
        r#""additionalModelRequestFields":{"reasoning_config":{"type":"enabled"}},"#,
        true,
    ),
    (
        Face::BEDROCK_CONVERSE,
        r#""additionalModelRequestFields":{"reasoning_config":{"type":"disabled"}},"#,
        false,
    ),
    (Face::BEDROCK_CONVERSE, r#""additionalModelRequestFields":{"top_k":5},"#, false),
    // Its models think unless the request says otherwise.
    (Face::GEMINI, "", true),
    (Face::GEMINI, r#""thinkingConfig":{"thinkingBudget":0},"#, false),
    (Face::GEMINI, r#""thinkingConfig":{"thinkingLevel":"HIGH"},"#, true),
];

#[test]
fn disconnecting_from_hidden_output_costs_the_whole_reservation_and_from_visible_output_what_arrived() {
    for (face, field, hides) in FIELDS {
        let dialect = face.dialect().unwrap();
        let (usage, _) = left(&with_window(dialect), face, field);
        let reserved = OutputLimit::new(LIMIT).reserved();
        // The text of a few events, and one second of a target whose speed is unknown.
        let is_little = (200..800).contains(&usage.output);
        let is_all = usage.output == reserved;
        assert_eq!((is_all, is_little), (hides, !hides), "{face:?} {field}: {usage:?}");
    }
}

#[test]
fn thinking_may_hide_output_where_its_translation_reaches_the_target() {
    let output =
        |field: &str| left(&with_window(DialectId::OPENAI_CHAT), Face::ANTHROPIC_MESSAGES, field).0.output;
    assert!(output("") < 800);
    assert!(output(r#""thinking":{"type":"disabled"},"#) < 800);
    let thinking = output(r#""thinking":{"type":"enabled","budget_tokens":1024},"#);
    assert_eq!(thinking, OutputLimit::new(LIMIT).reserved());
}

#[test]
fn reported_input_is_charged_unless_the_vendor_may_read_it_again() {
    let face = Face::ANTHROPIC_MESSAGES;
    let input = |field: &str| left(&with_window(DialectId::ANTHROPIC_MESSAGES), face, field).0.input;
    let default_input = input("");
    assert_eq!(input(r#""thinking":{"type":"adaptive"},"#), default_input);
    assert!(input(r#""tools":[{"type":"web_search_20250305","name":"w","max_uses":1}],"#) > 100_000);
}

#[test]
fn a_target_that_was_asked_to_think_is_not_known_to_do_so_unasked() {
    // It reports thirty times the usage of what it shows.
    let fault = Fault::Usage { percent: 3_000 };
    for (field, hides) in [(r#""thinking":{"type":"adaptive"},"#, false), ("", true)] {
        let stand = stand(DialectId::ANTHROPIC_MESSAGES, Some(fault.clone()), Money::from_dollars(1_000));
        let (shop, face) = (&stand.shop, Face::ANTHROPIC_MESSAGES);
        let seen = shop.ask_face_at(shop.world.now(), PRIME, question(face, field), None);
        shop.world.run();
        assert!(matches!(seen.lock().unwrap().take(), Some(Seen::Stream(_))));
        shop.world.run_until(shop.world.now() + Duration::from_secs(1));
        shop.ask_face_at(shop.world.now(), PRIME, question(face, ""), Some(4));
        shop.world.run();
        let (.., usage, _) = shop.attempts().last().unwrap().clone();
        assert_eq!(usage.output == OutputLimit::new(LIMIT).reserved(), hides, "{field}: {usage:?}");
    }
}

#[test]
fn an_answer_with_invalid_usage_is_forwarded_unchanged_and_charged_at_its_bound() {
    for dialect in DialectId::ALL {
        for (face, stream) in Face::ALL.into_iter().flat_map(|face| [(face, false), (face, true)]) {
            for figure in GARBAGE {
                let fault = Fault::GarbledUsage { figure: figure.to_owned() };
                let stand = stand(dialect, Some(fault), Money::from_dollars(1_000));
                let what = format!("{figure} {dialect:?} {face:?} {stream}");
                let seen = stand.ask(face, stream);
                assert!(!matches!(seen, Seen::Rejected(_)), "{what}: {seen:?}");
                let record = &stand.shop.records()[0];
                assert_eq!((&record.outcome, record.attempts), (&RequestOutcome::Answered, 1), "{what}");
                assert!(stand.bill() <= stand.shop.day().posted, "{what}");
                assert_eq!(record.overrun, Money::ZERO, "{what}");
                // If face and target use the same dialect, the response is passed through unchanged. OpenAI callers get
                // the usage of a stream only on request, and one dialect wraps its content in base64.
                let tells_usage = !(stream && [Face::OPENAI_CHAT, Face::BEDROCK_INVOKE].contains(&face));
                if face.dialect() == Some(dialect) && tells_usage {
                    let answer = String::from_utf8_lossy(&bytes(&seen)).into_owned();
                    let name = if face == Face::GEMINI { "TokenCount" } else { "okens" };
                    assert!(answer.contains(&format!("{name}\":{figure}")), "{what}: {answer}");
                }
            }
        }
    }
}
