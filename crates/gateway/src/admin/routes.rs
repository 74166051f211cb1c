//! The route table of the admin API.
//!
//! A row is a method, a path, the accepted parameters and a handler. A path that ends with `{id}` takes one more
//! segment of any content. Paths are compared as sent: without percent-decoding and without dot-segment removal.

use super::query::AdminQuery;
use super::response::{AdminError, AdminResponse, respond};
use super::{AdminState, corrections, keys, requests, targets, views};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use seawall_pipeline::Timer as _;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// Maximum size of a request body.
const MAX_BODY_SIZE: usize = 1 << 16;
/// Body timeout.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A parsed admin request.
#[derive(Debug)]
pub(crate) struct AdminRequest {
    pub(crate) query: AdminQuery,
    /// The path segment for `{id}`; empty if the path has none.
    pub(crate) id: String,
    /// The body; empty for GET.
    pub(crate) body: Bytes,
}

type AdminFuture<'a> = Pin<Box<dyn Future<Output = Result<AdminResponse, AdminError>> + Send + 'a>>;

/// One row of the table.
pub(super) struct AdminRoute {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) parameters: &'static [&'static str],
    pub(super) serve: for<'a> fn(&'a AdminState, AdminRequest) -> AdminFuture<'a>,
}

macro_rules! routes {
    ($( $method:ident $path:literal [$($parameter:literal),*] => $serve:path; )+) => {
        /// The route table.
        pub(super) static ROUTES: &[AdminRoute] = &[$(
            AdminRoute {
                method: Method::$method,
                path: $path,
                parameters: &[$($parameter),*],
                serve: |admin, request| Box::pin(async move { $serve(admin, request).await }),
            },
        )+];
    };
}

routes! {
    GET "/admin/status" [] => views::status;
    GET "/admin/targets" [] => targets::targets;
    GET "/admin/limits" ["caller", "tier"] => views::limits;
    GET "/admin/spend" ["caller", "by", "since"] => views::spend;
    POST "/admin/spend/corrections" [] => corrections::correct;
    GET "/admin/requests" ["after", "caller", "key", "limit", "outcome", "rung", "since", "target", "until"] => requests::list;
    GET "/admin/requests/{id}" [] => requests::find;
    GET "/admin/settings" [] => views::settings;
    GET "/admin/keys" [] => keys::list;
    POST "/admin/keys" [] => keys::create;
    PATCH "/admin/keys/{id}" [] => keys::update;
    DELETE "/admin/keys/{id}" [] => keys::revoke;
    POST "/admin/keys/rotate/{id}" [] => keys::rotate;
    GET "/metrics" [] => views::metrics;
}

/// The segment for `{id}` if the path matches this pattern (empty if the pattern has none), or `None`.
fn match_path<'a>(pattern: &str, path: &'a str) -> Option<&'a str> {
    match pattern.strip_suffix("{id}") {
        Some(start) => path.strip_prefix(start).filter(|id| !id.is_empty() && !id.contains('/')),
        None => (pattern == path).then_some(""),
    }
}

/// The route that matches this request, and the segment for `{id}`.
fn find_route<'a>(
    routes: &'static [AdminRoute],
    method: &Method,
    path: &'a str,
) -> Result<(&'static AdminRoute, &'a str), AdminError> {
    let mut allowed = Vec::new();
    for route in routes {
        let Some(id) = match_path(route.path, path) else { continue };
        if route.method == *method {
            return Ok((route, id));
        }
        allowed.push(route.method.as_str());
    }
    Err(if allowed.is_empty() {
        AdminError::NotFound
    } else {
        AdminError::MethodNotAllowed(allowed.join(", "))
    })
}

impl AdminState {
    /// Serves one request.
    pub(super) async fn serve(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let is_pretty = AdminQuery::is_pretty(request.uri().query());
        respond(&self.dispatch(request).await, is_pretty)
    }

    async fn dispatch(&self, request: Request<Incoming>) -> Result<AdminResponse, AdminError> {
        let (head, body) = request.into_parts();
        // First of all: an unauthorised client must not learn which paths exist.
        self.guard.check(&head.uri, &head.headers)?;
        let (route, id) = find_route(ROUTES, &head.method, head.uri.path())?;
        let query = AdminQuery::parse(head.uri.query(), route.parameters)?;
        let body = if head.method == Method::GET { Bytes::new() } else { self.read_body(body).await? };
        (route.serve)(self, AdminRequest { query, id: id.to_owned(), body }).await
    }

    async fn read_body(&self, body: Incoming) -> Result<Bytes, AdminError> {
        let runtime = self.status.runtime;
        let wrong = |problem: &str| AdminError::InvalidParameter(format!("request body: {problem}"));
        tokio::select! {
            biased;
            body = Limited::new(body, MAX_BODY_SIZE).collect() => {
                let broken = |_| wrong("incomplete, or larger than 64 KiB");
                body.map(http_body_util::Collected::to_bytes).map_err(broken)
            }
            () = runtime.sleep_until(runtime.monotonic() + BODY_TIMEOUT) => Err(wrong("did not arrive within 10 s")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AdminError, AdminRoute, ROUTES, find_route, match_path};
    use hyper::Method;

    fn found(method: &Method, path: &str) -> Result<&'static str, AdminError> {
        find_route(ROUTES, method, path).map(|(route, _)| route.path)
    }

    #[test]
    fn every_path_of_the_table_leads_to_its_row_and_no_other_does() {
        for route in ROUTES {
            assert_eq!(found(&route.method, route.path), Ok(route.path));
            assert!(matches!(found(&Method::PUT, route.path), Err(AdminError::MethodNotAllowed(_))));
        }
        for path in
            ["/", "/admin", "/admin/", "/admin/status/", "//admin/status", "/admin/%73tatus", "/ADMIN/status"]
        {
            assert_eq!(found(&Method::GET, path), Err(AdminError::NotFound), "{path}");
        }
    }

    #[test]
    fn a_path_that_takes_a_name_takes_one_step_of_it() {
        assert_eq!(match_path("/admin/keys/{id}", "/admin/keys/key_1"), Some("key_1"));
        for path in ["/admin/keys/", "/admin/keys", "/admin/keys/a/b", "/admin/key/a"] {
            assert_eq!(match_path("/admin/keys/{id}", path), None, "{path}");
        }
        assert_eq!(
            (match_path("/admin/keys", "/admin/keys"), match_path("/admin/keys", "/admin/key")),
            (Some(""), None)
        );
    }

    #[test]
    fn a_path_of_several_methods_names_them_all() {
        let row = |method, path| AdminRoute {
            method,
            path,
            parameters: &[],
            serve: |_, _| Box::pin(async { Err(AdminError::NotFound) }),
        };
        let rows: &'static [AdminRoute] = Box::leak(Box::new([
            row(Method::GET, "/a"),
            row(Method::POST, "/a"),
            row(Method::DELETE, "/a/{id}"),
        ]));
        assert!(
            matches!(find_route(rows, &Method::POST, "/a"), Ok((route, "")) if route.method == Method::POST)
        );
        assert!(matches!(find_route(rows, &Method::DELETE, "/a/7"), Ok((_, "7"))));
        assert!(
            matches!(find_route(rows, &Method::PUT, "/a"), Err(AdminError::MethodNotAllowed(all)) if all == "GET, POST")
        );
        assert!(
            matches!(find_route(rows, &Method::GET, "/a/7"), Err(AdminError::MethodNotAllowed(all)) if all == "DELETE")
        );
    }
}
