//! The guard as a `tower` layer, for clients that are services.

use crate::error::{ApiError, GuardError};
use crate::guard::{ApiCall, ApiGuard};
use seawall_core::runtime::Runtime;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// How the layer sees a service's requests and responses.
pub trait GuardPolicy<Request, Response, E>: Clone + Send + Sync + 'static {
    /// What to call the request, and whether it may be repeated.
    fn call(&self, request: &Request) -> ApiCall;

    /// The error that a response carries, if it does. HTTP clients return refusals as responses.
    fn check(&self, response: Response) -> Result<Response, E>;
}

/// Adds the guard to a service: a rate token before every attempt, retries, and reports.
///
/// The inner service must not retry by itself. It and the request are cloned for every attempt, so the service should be
/// a client that pools its connections, and the body of a request should be in memory.
#[derive(Clone)]
pub struct GuardLayer<R: Runtime, P> {
    guard: ApiGuard<R>,
    policy: P,
}

impl<R: Runtime, P> GuardLayer<R, P> {
    /// The layer of this guard.
    #[must_use]
    pub const fn new(guard: ApiGuard<R>, policy: P) -> Self {
        Self { guard, policy }
    }
}

impl<R: Runtime, P: Clone, S> Layer<S> for GuardLayer<R, P> {
    type Service = GuardService<R, P, S>;

    fn layer(&self, inner: S) -> Self::Service {
        GuardService { guard: self.guard.clone(), policy: self.policy.clone(), inner }
    }
}

/// A guarded service. See [`GuardLayer`].
#[derive(Clone)]
pub struct GuardService<R: Runtime, P, S> {
    guard: ApiGuard<R>,
    policy: P,
    inner: S,
}

impl<R, P, S, Request, E> Service<Request> for GuardService<R, P, S>
where
    R: Runtime,
    P: GuardPolicy<Request, S::Response, E>,
    S: Service<Request, Error = E> + Clone + Send + Sync + 'static,
    S::Future: Send,
    S::Response: Send,
    Request: Clone + Send + Sync + 'static,
    E: ApiError,
{
    type Response = S::Response;
    type Error = GuardError<E>;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, GuardError<E>>> + Send>>;

    /// Always ready: the guard waits inside the call, where it knows the deadline.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let (guard, policy, inner) = (self.guard.clone(), self.policy.clone(), self.inner.clone());
        Box::pin(async move {
            let attempt = || {
                let (mut inner, policy, request) = (inner.clone(), policy.clone(), request.clone());
                async move {
                    std::future::poll_fn(|context| inner.poll_ready(context)).await?;
                    policy.check(inner.call(request).await?)
                }
            };
            guard.call(policy.call(&request), attempt).await
        })
    }
}
