use crate::openai::UsageFilter;
use crate::sse::SseError;
use bytes::Bytes;

const STREAM: &str = include_str!("../../../tests/golden/openai/stream.txt");

fn filtered<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut filter = UsageFilter::new(1 << 20);
    let mut passed = Vec::new();
    for piece in pieces {
        filter.feed(&Bytes::copy_from_slice(piece), |bytes| passed.extend_from_slice(&bytes)).unwrap();
    }
    passed.extend_from_slice(&filter.finish());
    String::from_utf8(passed).unwrap()
}

/// The stream without its usage chunk.
fn expected() -> String {
    STREAM.split_inclusive("\n\n").filter(|event| !event.contains("\"choices\":[]")).collect()
}

#[test]
fn exactly_the_usage_chunk_is_removed_at_any_split() {
    assert_eq!([STREAM, &expected()].map(|stream| stream.matches("\n\n").count()), [11, 10]);
    for split in 0..=STREAM.len() {
        let (before, after) = STREAM.as_bytes().split_at(split);
        assert_eq!(filtered([before, after]), expected(), "split at {split}");
    }
    assert_eq!(filtered(STREAM.as_bytes().chunks(1)), expected());
}

#[test]
fn everything_else_stays_to_the_byte() {
    for kept in [
        "data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n",
        "data: {\"choices\":[],\"usage\":null}\n\n",
        "data: {\"choices\":[{\"delta\":{}}],\"usage\":{}}\n\n",
        "data: {\"usage\":{}}\n\n",
        "data: \"usage\"\n\n",
        ": comment \"usage\"\n\n: {\"choices\":[],\"usage\":{}}\n\n",
        "event: x\ndata: {\"choices\":[],\"usage\":{}}\n\n",
        "\n\n\r\n\r\rdata: [DONE]\r\n\r\n",
        "data: {\"choices\":[],\"usage\":{}}\n",
        "data: lost",
    ] {
        assert_eq!(filtered([kept.as_bytes()]), kept);
    }
    for taken in [
        "data: {\"choices\":[],\"usage\":{}}\n\n",
        "data:{\"usage\":{},\"choices\":[]}\r\n\r\n",
        "data: {\"choices\":[],\"usage\":{}}\r\r",
    ] {
        assert_eq!(filtered([format!("data: a\n\n{taken}data: b\n\n").as_bytes()]), "data: a\n\ndata: b\n\n");
    }
}

#[test]
fn whole_events_are_passed_on_together_and_without_a_copy() {
    let usage = "data: {\"choices\":[],\"usage\":{}}\n\n";
    let piece = Bytes::from(format!("data: a\n\ndata: b\n\n{usage}data: c\n\ndata: d"));
    let mut passed = Vec::new();
    UsageFilter::new(100).feed(&piece, |bytes| passed.push(bytes)).unwrap();
    assert_eq!(passed, ["data: a\n\ndata: b\n\n", "data: c\n\n"]);
    assert!(passed.iter().all(|part| piece.as_ptr_range().contains(&part.as_ptr())));
}

#[test]
fn an_event_has_a_limit_to_the_byte() {
    let too_large = Err(SseError::EventTooLarge { limit: 9 });
    for (pieces, outcome) in [
        (vec!["data: a\n\n", "data: b\n\n"], Ok(())),
        (vec!["data: ab\n\n"], too_large),
        (vec!["data: ", "a\n\n"], Ok(())),
        (vec!["data: ", "ab\n\n"], too_large),
        (vec!["data: abc"], Ok(())),
        (vec!["data: abcd"], too_large),
        (vec!["data: ", "abcd"], too_large),
    ] {
        let mut filter = UsageFilter::new(9);
        let got = pieces.iter().try_for_each(|piece| filter.feed(&Bytes::from(*piece), |_| ()));
        assert_eq!(got, outcome, "{pieces:?}");
    }
}
