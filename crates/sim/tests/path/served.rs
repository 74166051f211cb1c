//! Streams of InvokeModel whose headers report the service tier.

use crate::shop::{Numbers, PRIME, Shop, at_face, callers, inbound};
use crate::target::pieces;
use bytes::{Bytes, BytesMut};
use seawall_core::failure::Failure;
use seawall_core::money::{PriceDimension, PriceMultiplier, PriceTable, ServiceTier, Surcharge};
use seawall_core::time::Timestamp;
use seawall_pipeline::dialect::{DialectHeaders, Face};
use seawall_pipeline::{InboundRequest, ReplyContent, Tier};
use seawall_provider::{Call, CallFuture, ChunkStream, Target, UpstreamResponse};
use seawall_sim::World;
use seawall_wire::bedrock::{InvokeHeader, SseToInvoke};
use seawall_wire::dialect::{DialectId, ResponseReport};
use seawall_wire::sse::SseLimits;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

const TIER: &str = "x-amzn-bedrock-service-tier";

/// A model at Bedrock that reports its service tier in a header.
struct Serving(Option<ResponseReport>);

impl Target for Serving {
    fn dialect(&self) -> DialectId {
        DialectId::BEDROCK_INVOKE
    }

    fn call(&self, call: Call) -> CallFuture<'_> {
        assert_eq!(call.headers, [(TIER, "priority".into())]);
        let mut frames = BytesMut::new();
        let whole = pieces().concat();
        SseToInvoke::new(SseLimits::default()).feed(&whole, Duration::ZERO, &mut frames).unwrap();
        let frames = OneChunk { chunk: Some(frames.freeze()), report: self.0.clone() };
        Box::pin(async move { Ok(UpstreamResponse::Stream(Box::new(frames) as Box<dyn ChunkStream>)) })
    }
}

struct OneChunk {
    chunk: Option<Bytes>,
    report: Option<ResponseReport>,
}

impl ChunkStream for OneChunk {
    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Failure>>> {
        Poll::Ready(self.chunk.take().map(Ok))
    }

    fn report(&self) -> Option<&ResponseReport> {
        self.report.as_ref()
    }
}

/// Priority service costs twice as much here.
fn surcharges(price: PriceTable) -> PriceTable {
    price.with_multiplier(Surcharge::Priority, PriceMultiplier { input: 2_000, output: 2_000 })
}

/// The cost of a stream that is requested at this service tier, and the headers that its caller receives.
fn served(reported: Option<(&str, Option<Surcharge>)>) -> (u64, Vec<(&'static str, String)>) {
    let report = reported.map(|(name, surcharge)| ResponseReport {
        usage: None,
        service: ServiceTier::default().with(PriceDimension::Tier, surcharge),
        headers: vec![(TIER, name.to_owned())],
    });
    let world = World::new(7);
    world.run_until(Timestamp::ZERO + Duration::from_secs(3 * 3_600));
    let upstream = || Arc::new(Serving(report.clone())) as Arc<dyn Target>;
    let models = [("strong-model", 3_000_000_000, upstream()), ("fast-model", 1_000_000_000, upstream())];
    let numbers = Numbers { surcharges, ..Numbers::default() };
    let shop = Shop::with_options(&world, callers(&[(PRIME, Tier::Prime)]), models, &numbers);
    let (operation, body) = at_face(Face::BEDROCK_INVOKE, true);
    let invoke = vec![InvokeHeader::read(TIER, "priority").unwrap().unwrap()];
    let headers = DialectHeaders { invoke, ..DialectHeaders::default() };
    let request = InboundRequest { operation: operation.api(), headers, ..inbound(1, PRIME, &body) };
    let (pipeline, headers) = (Arc::clone(&shop.pipeline), Arc::new(Mutex::new(Vec::new())));
    let sent_headers = Arc::clone(&headers);
    world.spawn(async move {
        let ReplyContent::Stream(mut stream) = pipeline.serve(request).await.content else {
            panic!("it is a stream")
        };
        *sent_headers.lock().unwrap() = stream.headers().to_vec();
        while stream.event().await.is_some() {}
    });
    world.run();
    let headers = headers.lock().unwrap().clone();
    (shop.day().posted.as_nanos(), headers)
}

#[test]
fn a_stream_is_charged_by_the_service_level_in_its_headers_which_the_caller_receives() {
    let (base, headers) = served(Some(("default", None)));
    assert_eq!(headers, [(TIER, "default".to_owned())]);
    let (priority, headers) = served(Some(("priority", Some(Surcharge::Priority))));
    assert_eq!((priority, headers), (2 * base, vec![(TIER, "priority".to_owned())]));
    // Without a report, the requested service tier is charged.
    assert_eq!(served(None), (2 * base, Vec::new()));
    assert!(base > 0);
}
