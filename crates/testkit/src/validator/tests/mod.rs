//! Outcomes of handwritten answers, split at every position.

mod dialects;

use super::{ClientDialect, ClientOutcome, ResponseValidator, TransportEnd};
use proptest::prelude::{ProptestConfig, any, prop_assert_eq, proptest};

const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n";
const TEXT: &str =
    "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"漫画\"}}\n\n";
const WHY: &str = "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":2}}\n\n";
const STOP: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
const ERROR: &str = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"}}\n\n";
const PING: &str = ": nothing\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n";
const MESSAGE: &str = r#"{"type":"message","content":[{"type":"text","text":"漫"},{"type":"text","text":"画"}],"stop_reason":"end_turn","usage":{"output_tokens":2}}"#;
const REFUSAL: &str = r#"{"type":"error","error":{"type":"rate_limit_error","message":"m"}}"#;

fn judged(is_streamed: bool, status: u16, body: &str, ending: TransportEnd) -> ClientOutcome {
    let mut judge = ResponseValidator::new(ClientDialect::Messages, is_streamed);
    judge.head(status, true);
    judge.body(body.as_bytes());
    judge.outcome(ending)
}

fn streamed(parts: &[&str], ending: TransportEnd) -> ClientOutcome {
    judged(true, 200, &parts.concat(), ending)
}

#[test]
fn a_stream_with_an_end_is_an_answer_however_the_connection_ends() {
    for ending in [TransportEnd::Clean, TransportEnd::Broken, TransportEnd::TimedOut] {
        assert_eq!(streamed(&[START, PING, TEXT, WHY, PING, STOP], ending), ClientOutcome::Answered);
    }
}

#[test]
fn a_stream_without_its_end_is_cut_or_looks_complete_or_hangs() {
    for parts in [&[][..], &[START], &[START, TEXT], &[START, TEXT, WHY], &[START, TEXT, WHY, &STOP[..30]]] {
        assert_eq!(streamed(parts, TransportEnd::Broken), ClientOutcome::Cut, "{parts:?}");
        assert_eq!(streamed(parts, TransportEnd::Clean), ClientOutcome::FalselyComplete, "{parts:?}");
        assert_eq!(streamed(parts, TransportEnd::TimedOut), ClientOutcome::Hung, "{parts:?}");
    }
}

#[test]
fn a_stream_with_an_error_event_is_broken_off_however_it_ends() {
    for ending in [TransportEnd::Clean, TransportEnd::Broken, TransportEnd::TimedOut] {
        assert_eq!(streamed(&[START, TEXT, ERROR], ending), ClientOutcome::Interrupted);
    }
    assert_eq!(streamed(&[START, TEXT, WHY, STOP, ERROR], TransportEnd::Clean), ClientOutcome::Interrupted);
}

#[test]
fn an_end_does_not_make_an_answer_whole_that_is_not() {
    let other_length = WHY.replace('2', "3");
    let no_length = "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n";
    let no_reason = WHY.replace("\"end_turn\"", "null");
    for parts in [
        &[START, WHY, STOP][..],
        &[START, TEXT, TEXT, WHY, STOP],
        &[START, TEXT, &other_length, STOP],
        &[START, TEXT, no_length, STOP],
        &[START, TEXT, &no_reason, STOP],
        &[START, TEXT, STOP],
        &[TEXT, WHY, STOP],
        &[START, START, TEXT, WHY, STOP],
        &[START, TEXT, WHY, STOP, STOP],
        &[START, TEXT, WHY, STOP, TEXT],
        &[START, TEXT, "data: {no\n\n", WHY, STOP],
    ] {
        assert_eq!(streamed(parts, TransportEnd::Clean), ClientOutcome::FalselyComplete, "{parts:?}");
    }
}

#[test]
fn an_answer_in_one_piece_is_whole_or_it_is_not() {
    let whole = |body: &str, ending| judged(false, 200, body, ending);
    assert_eq!(whole(MESSAGE, TransportEnd::Clean), ClientOutcome::Answered);
    assert_eq!(whole(MESSAGE, TransportEnd::Broken), ClientOutcome::Lost);
    assert_eq!(whole(MESSAGE, TransportEnd::TimedOut), ClientOutcome::Hung);
    for body in [
        "",
        "<html>",
        &MESSAGE[..40],
        &MESSAGE.replace("\"end_turn\"", "null"),
        &MESSAGE.replace(":2", ":3"),
        &MESSAGE.replace("message", "completion"),
        &MESSAGE.replace("content", "contents"),
    ] {
        assert_eq!(whole(body, TransportEnd::Clean), ClientOutcome::FalselyComplete, "{body}");
    }
}

#[test]
fn a_rejection_must_be_in_the_format_of_the_dialect() {
    for is_streamed in [false, true] {
        let refused = judged(is_streamed, 429, REFUSAL, TransportEnd::Clean);
        assert_eq!(refused, ClientOutcome::Rejected { status: 429, has_retry_advice: true });
        assert_eq!(judged(is_streamed, 502, "<html>Bad gateway", TransportEnd::Clean), ClientOutcome::Lost);
        assert_eq!(judged(is_streamed, 503, REFUSAL, TransportEnd::Broken), ClientOutcome::Lost);
        assert_eq!(judged(is_streamed, 503, REFUSAL, TransportEnd::TimedOut), ClientOutcome::Hung);
    }
    let mut judge = ResponseValidator::new(ClientDialect::Messages, true);
    judge.head(503, false);
    judge.body(REFUSAL.as_bytes());
    assert_eq!(
        judge.outcome(TransportEnd::Clean),
        ClientOutcome::Rejected { status: 503, has_retry_advice: false }
    );
    for part in ["\"type\":\"error\"", "\"type\":\"rate_limit_error\",", "message"] {
        let body = REFUSAL.replace(part, &part.replace(['e', 'y'], "x"));
        assert_eq!(judged(false, 429, &body, TransportEnd::Clean), ClientOutcome::Lost, "{body}");
    }
}

#[test]
fn without_a_head_it_is_lost_or_silent() {
    let judge = ResponseValidator::new(ClientDialect::Messages, true);
    assert_eq!(judge.outcome(TransportEnd::Broken), ClientOutcome::Lost);
    assert_eq!(judge.outcome(TransportEnd::Clean), ClientOutcome::Lost);
    assert_eq!(judge.outcome(TransportEnd::TimedOut), ClientOutcome::Hung);
}

#[test]
fn text_is_there_with_the_first_piece_of_it() {
    let mut judge = ResponseValidator::new(ClientDialect::Messages, true);
    judge.head(200, false);
    judge.body(START.as_bytes());
    judge.body(&TEXT.as_bytes()[..TEXT.len() - 1]);
    assert!(!judge.has_text());
    judge.body(b"\n");
    assert!(judge.has_text());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn where_a_stream_is_split_changes_nothing(
        cut in 0_usize..400,
        sizes in proptest::collection::vec(1_usize..40, 1..60),
        is_clean in any::<bool>(),
    ) {
        let bytes = [START, TEXT, PING, WHY, STOP].concat().into_bytes();
        let bytes = &bytes[..cut.min(bytes.len())];
        let ending = if is_clean { TransportEnd::Clean } else { TransportEnd::Broken };
        let (mut whole, mut pieces) = (ResponseValidator::new(ClientDialect::Messages, true), ResponseValidator::new(ClientDialect::Messages, true));
        whole.head(200, false);
        pieces.head(200, false);
        whole.body(bytes);
        let mut rest = bytes;
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, behind) = rest.split_at((*size).min(rest.len()));
            pieces.body(piece);
            rest = behind;
        }
        prop_assert_eq!(whole.outcome(ending), pieces.outcome(ending));
        prop_assert_eq!(whole.outcome(ending) == ClientOutcome::Answered, cut >= [START, TEXT, PING, WHY, STOP].concat().len());
    }
}
