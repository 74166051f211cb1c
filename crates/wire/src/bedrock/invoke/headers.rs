//! The request and response headers of InvokeModel.

use crate::chat::Usage;
use crate::dialect::ResponseReport;
use crate::features::{parse_service_option, request_option};
use crate::{RequestError, RequestFeatures};
use seawall_core::money::{PriceDimension, ServiceTier};
use std::time::Duration;

/// The content type of a stream of frames.
pub const STREAM_CONTENT_TYPE: &str = "application/vnd.amazon.eventstream";
/// The content type of the chunks of a stream, sent in `x-amzn-bedrock-content-type`.
pub const INVOKE_CONTENT_TYPE: &str = "application/json";

const INPUT: &str = "x-amzn-bedrock-input-token-count";
const OUTPUT: &str = "x-amzn-bedrock-output-token-count";
const CACHE_READ: &str = "x-amzn-bedrock-cache-read-input-token-count";
const CACHE_WRITE: &str = "x-amzn-bedrock-cache-write-input-token-count";
const LATENCY: &str = "x-amzn-bedrock-invocation-latency";

const GUARDRAIL: &str = "x-amzn-bedrock-guardrailidentifier";
const GUARDRAIL_VERSION: &str = "x-amzn-bedrock-guardrailversion";
const TRACE: &str = "x-amzn-bedrock-trace";
const PERFORMANCE: &str = "x-amzn-bedrock-performanceconfig-latency";
const TIER: &str = "x-amzn-bedrock-service-tier";
const METADATA: &str = "x-amzn-bedrock-request-metadata";
const ACCEPT: &str = "x-amzn-bedrock-accept";

/// The prefix of the service's own headers.
pub const HEADER_PREFIX: &str = "x-amzn-bedrock-";

/// Response headers that report service options; they are forwarded unchanged to a caller of InvokeModel.
pub const FORWARDED_RESPONSE_HEADERS: [&str; 2] = [PERFORMANCE, TIER];

/// A header of InvokeModel that is part of the request, like the fields of its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvokeHeader {
    /// The header name, in lower case.
    pub name: &'static str,
    /// The value as received.
    pub value: Box<str>,
}

impl InvokeHeader {
    /// Reads a header whose lower-case name begins with [`HEADER_PREFIX`]. Returns `None` if it affects neither the
    /// answer nor the price. An unknown header is rejected, because its effect is unknown.
    ///
    /// ```
    /// use seawall_wire::bedrock::InvokeHeader;
    ///
    /// let header = InvokeHeader::read("x-amzn-bedrock-service-tier", "flex")?;
    /// assert_eq!(header.map(|header| header.name), Some("x-amzn-bedrock-service-tier"));
    /// assert!(InvokeHeader::read("x-amzn-bedrock-telepathy", "on").is_err());
    /// # Ok::<(), seawall_wire::RequestError>(())
    /// ```
    pub fn read(name: &str, value: &str) -> Result<Option<Self>, RequestError> {
        let known = [GUARDRAIL, GUARDRAIL_VERSION, TRACE, PERFORMANCE, TIER, METADATA];
        match known.into_iter().find(|known| *known == name) {
            Some(name) => Ok(Some(Self { name, value: value.into() })),
            // The accepted content type of chunks; they are forwarded as they arrive.
            None if name == ACCEPT => Ok(None),
            None => Err(RequestError::invalid(name, "Unknown header; remove it")),
        }
    }

    /// Whether it changes the answer or its price. Other headers can be dropped for a target that does not accept them.
    #[must_use]
    pub fn is_binding(&self) -> bool {
        self.name != METADATA
    }

    /// The error for a target that does not support this header.
    #[must_use]
    pub fn unsupported(&self) -> RequestError {
        let problem = match self.name {
            GUARDRAIL | GUARDRAIL_VERSION | TRACE => {
                "This InvokeModel header is not supported by any target of the route; use guardrailConfig in a \
                 Converse request instead"
            }
            PERFORMANCE => {
                "This InvokeModel header is not supported by any target of the route; use performanceConfig in a \
                 Converse request instead"
            }
            TIER => {
                "This InvokeModel header is not supported by any target of the route; use serviceTier in a \
                 Converse request instead"
            }
            _ => "This InvokeModel header is not supported by any target of the route",
        };
        RequestError::invalid(self.name, problem)
    }

    /// Adds the price options of this header. A contradiction between header and body is rejected, because it is unknown
    /// which one the service would use.
    pub fn add_to(&self, features: &mut RequestFeatures) -> Result<(), RequestError> {
        let dimension = match self.name {
            TIER => PriceDimension::Tier,
            PERFORMANCE => PriceDimension::Latency,
            _ => return Ok(()),
        };
        if features.pricing.service.of(dimension).is_some() {
            return Err(RequestError::invalid(
                self.name,
                "This option is also set in the body; set it only once",
            ));
        }
        request_option(&mut features.pricing, dimension, &self.value);
        Ok(())
    }
}

/// The service options that an answer's headers report (looked up by lower-case name).
#[must_use]
pub fn read_service_headers<'h>(header: impl Fn(&str) -> Option<&'h str>) -> ServiceTier {
    let dimensions = [(TIER, PriceDimension::Tier), (PERFORMANCE, PriceDimension::Latency)];
    dimensions.into_iter().fold(ServiceTier::default(), |level, (name, dimension)| {
        header(name).map_or(level, |value| parse_service_option(value).apply_to(level, dimension))
    })
}

/// What the headers of a response report: usage, for models that do not report it in the body, and the service tier.
pub(crate) fn read_forwarded_headers<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Option<ResponseReport> {
    let passed = FORWARDED_RESPONSE_HEADERS.into_iter();
    let report = ResponseReport {
        usage: read_usage_headers(&header),
        service: read_service_headers(&header),
        headers: passed.filter_map(|name| Some((name, header(name)?.to_owned()))).collect(),
    };
    (report != ResponseReport::default()).then_some(report)
}

/// The usage headers of a whole answer. Cache counts are omitted if they are zero.
#[must_use]
pub fn usage_headers(usage: Usage, latency: Duration) -> Vec<(&'static str, String)> {
    let mut headers = vec![
        (INPUT, usage.input.to_string()),
        (OUTPUT, usage.output.to_string()),
        (LATENCY, latency.as_millis().to_string()),
    ];
    let cached = [(CACHE_READ, usage.cache_read), (CACHE_WRITE, usage.cache_write)];
    headers.extend(
        cached.into_iter().filter(|(_, count)| *count > 0).map(|(name, count)| (name, count.to_string())),
    );
    headers
}

/// The usage from response headers (looked up by lower-case name), for an answer whose body has none. `None` unless
/// input and output are both present; the input excludes cache reads and writes.
#[must_use]
pub fn read_usage_headers<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Option<Usage> {
    let count = |name: &str| header(name).and_then(|text| text.trim().parse().ok());
    Some(Usage {
        input: count(INPUT)?,
        output: count(OUTPUT)?,
        cache_read: count(CACHE_READ).unwrap_or(0),
        cache_write: count(CACHE_WRITE).unwrap_or(0),
        ..Usage::default()
    })
}
