//! The handler chain of every request: authentication, impersonation, in-flight limits, authorization, body, routing;
//! with timeout, panic recovery, audit and metrics around it (upstream: `DefaultBuildHandlerChain`).
//! Entry point: [`HttpService::answer`].

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, HeaderValue};
use http::{Method, Request, Response};
use hyper::upgrade::OnUpgrade;
use rhumb_auth::User;
use rhumb_auth::authn::{CertificateError, CertificateIdentity};
use rhumb_meta::{Status, Timestamp};

use super::authenticate::{authenticate, impersonate};
use super::health::HealthChecks;
use super::max_in_flight::InFlightLimits;
use super::request_observer::RequestObserver;
use super::reusable_timer::ReusableTimer;
use super::route;
use super::websocket::{self, OpenWebSockets};
use crate::audit::{AUDIT_ID, AuditIdGenerator, AuditLog};
use crate::metrics::ServerMetrics;
use rhumb_handlers::ServerState;
use rhumb_handlers::audit_body::AuditRequestRecorder;
use rhumb_handlers::http::{Reply, ResponseBody, accepts_gzip, compress_if_long, read_body};
use rhumb_handlers::request::{QueryParameters, RequestInfo};
use rhumb_registry::InFlightPermit;

/// Upstream's default of `--request-timeout`.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The client at the other end of a connection.
#[derive(Debug, Default)]
pub struct ConnectionPeer {
    pub address: String,
    /// The user in the client certificate, if the client presented one.
    pub certificate: Option<Result<CertificateIdentity, CertificateError>>,
    /// User of an in-process client, which needs no credentials.
    pub in_process_user: Option<Arc<User>>,
    /// Enforces the request timeout.
    pub timer: ReusableTimer,
}

/// Handles HTTP requests: the API and everything around it.
#[derive(Debug)]
pub struct HttpService {
    pub state: Arc<ServerState>,
    pub inflight: InFlightLimits,
    pub metrics: ServerMetrics,
    pub audit: Option<Arc<AuditLog>>,
    /// Maximum timeout of requests that are not long-running.
    pub request_timeout: Duration,
    pub(super) sockets: OpenWebSockets,
    pub(super) health: HealthChecks,
    audit_ids: AuditIdGenerator,
}

/// An authenticated and authorized request, with its body read.
#[derive(Debug)]
pub(super) struct AuthorizedRequest<'a> {
    pub(super) info: &'a RequestInfo,
    pub(super) query: &'a QueryParameters,
    pub(super) method: Method,
    pub(super) headers: http::HeaderMap,
    pub(super) body: Bytes,
    pub(super) user: Arc<User>,
    pub(super) now: Timestamp,
    /// Present if the client requests an upgrade to WebSocket.
    pub(super) upgrade: Option<OnUpgrade>,
    pub(super) recorder: Option<&'a AuditRequestRecorder>,
    /// Whether the audit policy logs the request.
    pub(super) is_audited: bool,
    pub(super) permit: Option<Arc<InFlightPermit>>,
}

impl HttpService {
    pub fn new(state: Arc<ServerState>) -> HttpService {
        HttpService {
            state,
            inflight: InFlightLimits::default(),
            metrics: ServerMetrics::default(),
            audit: None,
            request_timeout: REQUEST_TIMEOUT,
            sockets: OpenWebSockets::default(),
            health: HealthChecks::default(),
            audit_ids: AuditIdGenerator::default(),
        }
    }

    /// Always returns a response; a panic in a handler becomes a 500 of that request alone.
    pub async fn answer<B>(
        &self,
        request: Request<B>,
        peer: &ConnectionPeer,
    ) -> Response<ResponseBody>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let is_head = request.method() == Method::HEAD;
        let gzip = accepts_gzip(request.headers());
        let accept = request.headers().get(ACCEPT).cloned();
        let query = QueryParameters::parse(request.uri().query().unwrap_or_default());
        let (query, malformed) = match query {
            Ok(query) => (query, None),
            Err(status) => (QueryParameters::default(), Some(status)),
        };
        let info = RequestInfo::new(request.method(), request.uri().path(), &query);
        let mut trace = RequestObserver::begin(
            self,
            &request,
            &info,
            peer,
            self.audit_ids.id_for(request.headers()),
        );
        let reply = match malformed {
            Some(status) => Reply::status_for(&status, accept.as_ref()),
            None => {
                self.reply_with_timeout(request, peer, &info, &query, &mut trace)
                    .await
            }
        };
        let audit_id = trace.audit_id.clone();
        let reply = trace.finish(self, &info, &query, reply);
        let mut response = compress_if_long(reply, gzip).into_response();
        let headers = response.headers_mut();
        headers.insert(AUDIT_ID, audit_id);
        headers
            .entry(CACHE_CONTROL)
            .or_insert(HeaderValue::from_static("no-cache, private"));
        if is_head {
            strip_body(&mut response);
        }
        response
    }

    /// The timeout of a request: the server's, or a shorter one that the client requests (upstream:
    /// `WithRequestDeadline`).
    fn timeout(&self, query: &QueryParameters) -> Result<Duration, Status> {
        let requested_ns = match query.text("timeout") {
            "" => 0,
            text => rhumb_meta::parse_nanoseconds(text).map_err(|error| {
                Status::bad_request(format!(
                    "invalid timeout specified in the request URL - {error}"
                ))
            })?,
        };
        // Zero means no timeout on the client's part; the server ignores negative ones.
        Ok(match u64::try_from(requested_ns) {
            Ok(requested_ns @ 1..) => Duration::from_nanos(requested_ns).min(self.request_timeout),
            _ => self.request_timeout,
        })
    }

    /// The reply, with the request timeout and panic recovery applied.
    async fn reply_with_timeout<B>(
        &self,
        request: Request<B>,
        peer: &ConnectionPeer,
        info: &RequestInfo,
        query: &QueryParameters,
        trace: &mut RequestObserver,
    ) -> Reply
    where
        B: http_body::Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let accept = request.headers().get(ACCEPT).cloned();
        let timeout = match info.long_running {
            true => None,
            false => match self.timeout(query) {
                Ok(timeout) => Some(timeout),
                Err(status) => return Reply::status_for(&status, accept.as_ref()),
            },
        };
        let reply = self.reply(request, peer, info, query, trace);
        // Pinned in place: the future is large, and moving it is expensive.
        let reply = pin!(AssertUnwindSafe(reply).catch_unwind());
        let result = match timeout {
            None => reply.await,
            Some(timeout) => peer.timer.timeout(timeout, reply).await.unwrap_or_else(|| {
                Ok(Err(Status::timeout(
                    "request did not complete within the allotted timeout",
                    0,
                )))
            }),
        };
        match result {
            Ok(Ok(reply)) => reply,
            Ok(Err(status)) => Reply::status_for(&status, accept.as_ref()),
            Err(_) => {
                tracing::error!(
                    verb = info.verb,
                    path = info.path,
                    "request handler panicked; answering with 500"
                );
                Reply::status(&Status::internal_error(
                    "the server failed while it handled the request",
                ))
            }
        }
    }

    async fn reply<B>(
        &self,
        request: Request<B>,
        peer: &ConnectionPeer,
        info: &RequestInfo,
        query: &QueryParameters,
        trace: &mut RequestObserver,
    ) -> Result<Reply, Status>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let (mut parts, body) = request.into_parts();
        let now = self.state.registry.clock.wall();
        let user = authenticate(&self.state, &mut parts.headers, peer, now)?;
        trace.authenticated(self, user.clone());
        let user = match impersonate(&self.state, &user, info, &parts.headers)? {
            None => user,
            Some(other) => {
                trace.impersonated = Some(other.clone());
                other
            }
        };
        // In-process clients limit themselves, and other requests depend on them.
        if peer.in_process_user.is_none() {
            trace.permit = self.inflight.acquire(info)?;
        }
        trace.record_authorization(route::authorize(&self.state, &user, info))?;
        let body = match parts.method {
            Method::POST | Method::PUT | Method::PATCH | Method::DELETE => read_body(body).await?,
            _ => Bytes::new(),
        };
        let upgrade = websocket::is_upgrade_request(&parts.headers)
            .then(|| parts.extensions.remove::<OnUpgrade>())
            .flatten();
        let authorized = AuthorizedRequest {
            info,
            query,
            method: parts.method,
            headers: parts.headers,
            body,
            user,
            now,
            upgrade,
            recorder: trace.recorder(),
            is_audited: trace.is_audited(),
            permit: trace.permit.clone(),
        };
        route::dispatch(self, authorized).await
    }
}

/// Replaces the body of a response to HEAD by its `Content-Length`.
fn strip_body(response: &mut Response<ResponseBody>) {
    if let Some(total) = response.body().bytes_total() {
        response
            .headers_mut()
            .insert(CONTENT_LENGTH, HeaderValue::from(total));
    }
    *response.body_mut() = ResponseBody::empty();
}
