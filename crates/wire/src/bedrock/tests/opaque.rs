use super::{cut, event, exception, written};
use crate::bedrock::{
    FrameLimits, InvokeBody, InvokeHeader, OpaqueHead, OpaqueStream, read_invoke_body, read_opaque_usage,
    read_service_headers, write_chunk,
};
use crate::chat::{StreamEvent, Usage, UsageReport};
use crate::{RequestFeatures, RequestLimits};
use proptest::collection::vec;
use proptest::prelude::{any, prop_assert_eq, proptest};
use seawall_core::money::{PriceDimension, ServiceTier, Surcharge};

const METRICS: &str =
    r#""amazon-bedrock-invocationMetrics":{"inputTokenCount":7,"outputTokenCount":9,"invocationLatency":1}"#;

fn used(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}

fn chunk(json: &str) -> Vec<u8> {
    written(|out| write_chunk(out, json.as_bytes()))
}

fn told(pieces: &[&[u8]]) -> (Vec<StreamEvent>, OpaqueStream) {
    let (mut stream, mut events) = (OpaqueStream::new(FrameLimits::default()), Vec::new());
    for piece in pieces {
        stream.feed(piece, |event| events.push(event)).unwrap();
    }
    (events, stream)
}

#[test]
fn whose_body_it_is_follows_from_the_version_that_only_one_vendor_writes() {
    let read = |body: &str| read_invoke_body(body.as_bytes(), &RequestLimits::default());
    let anthropic = r#"{"anthropic_version":"bedrock-2023-05-31","max_tokens":5,"messages":[{"role":"user","content":"x"}]}"#;
    assert!(matches!(read(anthropic), Ok(InvokeBody::Anthropic(head)) if head.max_output == 5));
    let opaque = |answers| Ok(InvokeBody::Opaque(OpaqueHead { answers }));
    assert_eq!(read(r#"{"inputText":"x","textGenerationConfig":{"maxTokenCount":5}}"#), opaque(1));
    assert_eq!(read(r#"{"messages":[{"role":"user","content":[{"text":"x"}]}]}"#), opaque(1));
    assert_eq!(read(r#"{"prompt":"x","num_generations":5}"#), opaque(5));
    assert!(read(r#"{"prompt":"x","num_generations":"many"}"#).is_err());
    assert!(read("[]").is_err() && read("{").is_err() && read(r#"{"anthropic_version":"x"}"#).is_err());
}

#[test]
fn what_was_used_is_found_in_the_shapes_of_known_models() {
    let told = |input, output| UsageReport { usage: used(input, output), output_reported: true };
    for (body, expected) in [
        (
            r#"{"inputTextTokenCount":3,"results":[{"tokenCount":4,"outputText":"x"},{"tokenCount":5}]}"#,
            told(3, 9),
        ),
        (r#"{"generation":"x","prompt_token_count":3,"generation_token_count":4}"#, told(3, 4)),
        (r#"{"usage":{"inputTokens":3,"outputTokens":4,"totalTokens":7}}"#, told(3, 4)),
        (r#"{"usage":{"prompt_tokens":3,"completion_tokens":4}}"#, told(3, 4)),
        (
            r#"{"inputTextTokenCount":3,"embedding":[1.5]}"#,
            UsageReport { usage: used(3, 0), output_reported: false },
        ),
        (r#"{"results":[{"tokenCount":4}]}"#, UsageReport::default()),
        (r#"{"usage":{"inputTokens":-3,"outputTokens":4}}"#, UsageReport::default()),
        ("no JSON", UsageReport::default()),
    ] {
        assert_eq!(read_opaque_usage(body.as_bytes()), expected, "{body}");
    }
    assert_eq!(read_opaque_usage(format!("{{{METRICS}}}").as_bytes()), told(7, 9));
}

#[test]
fn a_stream_is_complete_with_the_counts_of_its_last_chunk_and_not_before() {
    let words = chunk(r#"{"outputText":"it says amazon-bedrock-invocationMetrics"}"#);
    let last = chunk(&format!(r#"{{"outputText":"","completionReason":"FINISH",{METRICS}}}"#));
    let (events, stream) = told(&[&words]);
    assert_eq!((events, stream.is_complete()), (vec![StreamEvent::Content], false));
    assert!(!stream.report().output_reported);
    let (events, stream) = told(&[&words, &last]);
    let progress = StreamEvent::Progress { usage: used(7, 9), finish: None };
    assert_eq!(events, [StreamEvent::Content, StreamEvent::Content, progress]);
    assert!(
        stream.is_complete() && stream.report() == UsageReport { usage: used(7, 9), output_reported: true }
    );
    // The stream ends inside another frame.
    assert!(!told(&[&words, &last, &words[..9]]).1.is_complete());
}

#[test]
fn failures_other_frames_and_chunks_that_are_none() {
    let thrown = exception("throttlingException", r#"{"message":"slow"}"#);
    let (events, stream) = told(&[&event("somethingNew", "{}"), &thrown]);
    assert!(
        matches!(&events[..], [StreamEvent::Other, StreamEvent::Failed { message, .. }] if message == "slow")
    );
    assert!(!stream.is_complete());
    let mut stream = OpaqueStream::new(FrameLimits::default());
    assert!(stream.feed(&event("chunk", r#"{"bytes":"?"}"#), |_| ()).is_err());
    assert!(stream.feed(&chunk("{}"), |_| ()).is_err(), "it does not recover");
    // The content of a chunk need not be JSON.
    assert_eq!(told(&[&chunk("words")]).0, [StreamEvent::Content]);
}

#[test]
fn headers_that_bind_are_kept_and_strange_ones_refused() {
    for (name, is_binding) in [
        ("x-amzn-bedrock-guardrailidentifier", true),
        ("x-amzn-bedrock-guardrailversion", true),
        ("x-amzn-bedrock-trace", true),
        ("x-amzn-bedrock-performanceconfig-latency", true),
        ("x-amzn-bedrock-service-tier", true),
        ("x-amzn-bedrock-request-metadata", false),
    ] {
        let header = InvokeHeader::read(name, "x").unwrap().unwrap();
        assert_eq!((header.name, &*header.value, header.is_binding()), (name, "x", is_binding));
        assert!(header.unsupported().to_string().starts_with(name));
    }
    assert_eq!(InvokeHeader::read("x-amzn-bedrock-accept", "application/json"), Ok(None));
    let strange = InvokeHeader::read("x-amzn-bedrock-speed", "warp").unwrap_err();
    assert_eq!(strange.to_string(), "x-amzn-bedrock-speed: Unknown header; remove it");
}

#[test]
fn a_tier_and_a_latency_in_headers_change_the_price_as_fields_do() {
    let features = |headers: &[(&str, &str)], mut features: RequestFeatures| {
        for (name, value) in headers {
            InvokeHeader::read(name, value).unwrap().unwrap().add_to(&mut features)?;
        }
        Ok::<_, crate::RequestError>(features)
    };
    let (tier, latency) = ("x-amzn-bedrock-service-tier", "x-amzn-bedrock-performanceconfig-latency");
    let both = features(&[(tier, "priority"), (latency, "optimized")], RequestFeatures::default()).unwrap();
    let expected = ServiceTier::default()
        .with(PriceDimension::Tier, Some(Surcharge::Priority))
        .with(PriceDimension::Latency, Some(Surcharge::Optimized));
    assert_eq!((both.pricing.service, &both.pricing.unknown), (expected, &None));
    let base = features(&[(tier, "default"), (latency, "standard")], RequestFeatures::default()).unwrap();
    assert_eq!(base.pricing.service.of(PriceDimension::Tier), Some(None));
    let gold = features(&[(tier, "gold")], RequestFeatures::default()).unwrap();
    assert_eq!(gold.pricing.unknown.as_deref(), Some("service_tier: gold"));
    // It is unknown which of the two the service would use.
    assert!(features(&[(tier, "flex")], both).is_err());
    let served =
        |name: &str| [(tier, "flex"), (latency, "standard")].into_iter().find(|(known, _)| *known == name);
    let served = read_service_headers(|name| served(name).map(|(_, value)| value));
    assert_eq!(served.of(PriceDimension::Tier), Some(Some(Surcharge::Flex)));
    assert_eq!(served.of(PriceDimension::Latency), Some(None));
}

proptest! {
    #[test]
    fn every_split_of_a_stream_yields_the_same_events(places in vec(any::<usize>(), 0..6)) {
        let last = chunk(&format!("{{{METRICS}}}"));
        let bytes = [chunk("a"), event("new", "{}"), chunk("b"), last].concat();
        let (whole, stream) = told(&[&bytes]);
        let (pieces, split) = told(&cut(&bytes, &places));
        prop_assert_eq!(whole, pieces);
        prop_assert_eq!((stream.report(), stream.is_complete()), (split.report(), split.is_complete()));
    }
}
