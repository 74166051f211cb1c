//! The guard for any client of the AWS SDK, without changing the code that calls it.
//!
//! - [`GuardedHttpClient`] wraps the SDK's HTTP client. Every attempt of every operation waits for a rate token before
//!   it is sent, and fails with a time-out of the connector if none is free in time.
//! - [`GuardInterceptor`] reports every attempt to an observer: metrics, log, Prometheus. The hooks of an interceptor
//!   cannot wait. On its own it can therefore only enforce the rate by refusing: [`GuardInterceptor::refusing`] fails an
//!   attempt that has no token at once.
//!
//! Retries stay with the SDK in this form. To have them here, switch the SDK's off and use
//! [`ApiGuard::call`](crate::ApiGuard::call) around `send()`, which works for every operation of every service.

use crate::bucket::RateBucket;
use crate::error::ErrorDescription;
use crate::event::{CallLabels, EventError, GuardEvent, GuardEventKind, GuardObserver};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::{
    BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, Metadata};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::{ConfigBag, Storable, StoreReplace};
use seawall_core::failure::{ErrorTable, FailureKind};
use seawall_core::runtime::Runtime;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// An HTTP client that waits for a rate token before it sends.
pub struct GuardedHttpClient<R: Runtime> {
    inner: SharedHttpClient,
    bucket: RateBucket<R>,
    token_timeout: Duration,
}

impl<R: Runtime> GuardedHttpClient<R> {
    /// Guards `inner` with this bucket; an attempt waits for its token for at most `token_timeout`.
    #[must_use]
    pub const fn new(inner: SharedHttpClient, bucket: RateBucket<R>, token_timeout: Duration) -> Self {
        Self { inner, bucket, token_timeout }
    }
}

impl<R: Runtime> fmt::Debug for GuardedHttpClient<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("GuardedHttpClient").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

impl<R: Runtime> HttpClient for GuardedHttpClient<R> {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(GuardedConnector {
            inner: self.inner.http_connector(settings, components),
            bucket: self.bucket.clone(),
            token_timeout: self.token_timeout,
        })
    }
}

struct GuardedConnector<R: Runtime> {
    inner: SharedHttpConnector,
    bucket: RateBucket<R>,
    token_timeout: Duration,
}

impl<R: Runtime> fmt::Debug for GuardedConnector<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("GuardedConnector").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

impl<R: Runtime> HttpConnector for GuardedConnector<R> {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (inner, bucket, timeout) = (self.inner.clone(), self.bucket.clone(), self.token_timeout);
        HttpConnectorFuture::new(async move {
            let permit = bucket.acquire(timeout).await;
            // Spent by the request that follows.
            drop(permit.map_err(|refused| ConnectorError::timeout(refused.into()))?);
            inner.call(request).await
        })
    }
}

/// The number of the attempt, kept in the SDK's state of the operation.
#[derive(Clone, Copy, Debug)]
struct AttemptNumber(u32);

impl Storable for AttemptNumber {
    type Storer = StoreReplace<Self>;
}

/// What connects the attempts of an operation.
#[derive(Clone, Debug)]
struct CorrelationId(Arc<str>);

impl Storable for CorrelationId {
    type Storer = StoreReplace<Self>;
}

/// Reports every attempt of a client, and can refuse attempts above the rate.
pub struct GuardInterceptor<R: Runtime> {
    runtime: R,
    bucket: RateBucket<R>,
    table: &'static ErrorTable,
    observer: Arc<dyn GuardObserver>,
    refuses: bool,
}

impl<R: Runtime> GuardInterceptor<R> {
    /// Reports attempts. Pair it with a [`GuardedHttpClient`], which holds the rate.
    #[must_use]
    pub fn reporting(
        runtime: R,
        bucket: RateBucket<R>,
        table: &'static ErrorTable,
        observer: Arc<dyn GuardObserver>,
    ) -> Self {
        Self { runtime, bucket, table, observer, refuses: false }
    }

    /// Reports attempts, and fails those for which no rate token is free at once.
    #[must_use]
    pub fn refusing(self) -> Self {
        Self { refuses: true, ..self }
    }

    fn labels(&self, config: &ConfigBag) -> CallLabels {
        let operation = config.load::<Metadata>().map_or("unknown", Metadata::name);
        let invocation = config.load::<CorrelationId>().map_or_else(|| "".into(), |id| Arc::clone(&id.0));
        CallLabels {
            operation: operation.to_owned().into(),
            region: self.bucket.key().region().into(),
            account: self.bucket.key().account().into(),
            correlation_id: invocation,
        }
    }

    fn observe(&self, labels: CallLabels, kind: GuardEventKind) {
        self.observer.observe(&GuardEvent { at: self.runtime.now().utc, labels, kind });
    }

    fn event_error(&self, context: &FinalizerInterceptorContextRef<'_>, message: String) -> EventError {
        let response = context.response();
        let header = |name| response.and_then(|response| response.headers().get(name));
        let code = header("x-amzn-errortype").or_else(|| header("x-amzn-query-error"));
        // The type may carry a namespace or a fault after a separator.
        let code = code.map(|code| code.split([';', ':']).next().unwrap_or(code).to_owned());
        let description = ErrorDescription {
            status: response.map(|response| response.status().as_u16()),
            code,
            message: message.clone(),
            retry_after: None,
            transport: response.is_none().then_some(FailureKind::Unreachable),
        };
        let failure = description.failure(self.table);
        EventError { code: description.code_or_kind(&failure), message, failure }
    }
}

impl<R: Runtime> fmt::Debug for GuardInterceptor<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("GuardInterceptor").field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

impl<R: Runtime> Intercept for GuardInterceptor<R> {
    fn name(&self) -> &'static str {
        "GuardInterceptor"
    }

    fn read_before_attempt(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let attempts = config.load::<AttemptNumber>().map_or(0, |number| number.0);
        if config.load::<CorrelationId>().is_none() {
            let id = format!("{:016x}{:016x}", self.runtime.draw().bits(), self.runtime.draw().bits());
            config.interceptor_state().store_put(CorrelationId(id.into()));
        }
        if self.refuses {
            match self.bucket.try_acquire() {
                // Spent by the attempt that follows.
                Some(permit) => drop(permit),
                None => {
                    let (timeout, would_wait) = (Duration::ZERO, Duration::ZERO);
                    let kind = GuardEventKind::TokenTimeout { attempts, timeout, would_wait };
                    self.observe(self.labels(config), kind);
                    return Err("no rate token is free; the request was not sent".into());
                }
            }
        }
        config.interceptor_state().store_put(AttemptNumber(attempts + 1));
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(attempt) = config.load::<AttemptNumber>().map(|number| number.0) else { return Ok(()) };
        let kind = match context.output_or_error() {
            Some(Ok(_)) => GuardEventKind::AttemptSucceeded { attempt },
            Some(Err(error)) => {
                let error = self.event_error(context, format!("{error:?}"));
                GuardEventKind::AttemptFailed { attempt, error, retry_after: None }
            }
            None => return Ok(()),
        };
        self.observe(self.labels(config), kind);
        Ok(())
    }
}
