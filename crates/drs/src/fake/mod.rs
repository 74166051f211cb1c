//! A server that imitates DRS, and as much of STS, SNS and CloudWatch as the client needs. For tests.
//!
//! The vendor's SDK talks to it over a socket, and it checks every signature. Requests and responses have the shapes of
//! the SDK's own model. It keeps jobs, servers and instances per account and region, limits the rate and the number
//! of jobs as the service does, logs every call, and plays faults on demand. It says nothing about how the real service
//! behaves beyond its published model.

mod cbor;
mod drs;
mod query;
mod server;
mod signature;
mod state;

pub use server::{FakeCloud, FakeCloudHandle};
pub use state::{FakeFault, FakeNotice, FakeRegion, FakeSettings, LoggedCall};

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;

/// The response of a handler.
type FakeResponse = Response<Full<Bytes>>;

/// Why a request is refused, in the vendor's words.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    status: u16,
    code: &'static str,
    message: String,
    retry_after: Option<u64>,
}

impl Refusal {
    fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), retry_after: None }
    }
}

fn response(status: u16, content_type: &str, body: impl Into<Bytes>) -> FakeResponse {
    let body = Full::new(body.into());
    let built = Response::builder().status(status).header("content-type", content_type);
    // The content types are constants, so that the head is valid.
    built.body(body).unwrap_or_default()
}
