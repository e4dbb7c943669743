//! What every request goes through: who asks, may they, then the answer.

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
use rhumb_auth::authn::{CertificateError, CertifiedUser};
use rhumb_meta::{Status, Timestamp};

use super::authenticate::{authenticate, impersonate};
use super::inflight::{InFlight, Place};
use super::route;
use super::timer::SpareTimer;
use super::trace::Trace;
use super::websocket::{self, Sockets};
use crate::Api;
use crate::audit::{AUDIT_ID, AuditIds, AuditLog, Recorder};
use crate::http::{Body, Reply, accepts_gzip, compress_if_long, read_body};
use crate::metrics::Metrics;
use crate::request::{Query, RequestInfo};

/// As long as upstream gives a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Who is at the other end of a connection.
#[derive(Debug, Default)]
pub struct Peer {
    pub address: String,
    /// What the client's certificate says, if it showed one.
    pub certificate: Option<Result<CertifiedUser, CertificateError>>,
    /// Who it is without further proof: only a part of this process can say so.
    pub known: Option<Arc<User>>,
    /// For the time that its requests have.
    pub timer: SpareTimer,
}

/// Answers requests.
#[derive(Debug)]
pub struct Service {
    pub api: Arc<Api>,
    pub inflight: InFlight,
    pub metrics: Metrics,
    pub audit: Option<Arc<AuditLog>>,
    /// How long a request may take that is not a watch.
    pub request_timeout: Duration,
    pub(super) sockets: Sockets,
    audit_ids: AuditIds,
}

/// A request that was let in, with its body read.
#[derive(Debug)]
pub(super) struct Admitted<'a> {
    pub(super) info: &'a RequestInfo,
    pub(super) query: &'a Query,
    pub(super) method: Method,
    pub(super) headers: http::HeaderMap,
    pub(super) body: Bytes,
    pub(super) user: Arc<User>,
    pub(super) now: Timestamp,
    /// How to go on as a WebSocket, if the client asks for one.
    pub(super) upgrade: Option<OnUpgrade>,
    pub(super) recorder: Option<&'a Recorder>,
    /// Whether the audit log has it at all.
    pub(super) is_audited: bool,
    pub(super) place: Option<Arc<Place>>,
}

impl Service {
    pub fn new(api: Arc<Api>) -> Service {
        Service {
            api,
            inflight: InFlight::default(),
            metrics: Metrics::default(),
            audit: None,
            request_timeout: REQUEST_TIMEOUT,
            sockets: Sockets::default(),
            audit_ids: AuditIds::default(),
        }
    }

    /// Always gives an answer; a bug in a handler is a 500 of that request alone.
    pub async fn answer<B>(&self, request: Request<B>, peer: &Peer) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let is_head = request.method() == Method::HEAD;
        let gzip = accepts_gzip(request.headers());
        let accept = request.headers().get(ACCEPT).cloned();
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let (query, malformed) = match query {
            Ok(query) => (query, None),
            Err(status) => (Query::default(), Some(status)),
        };
        let info = RequestInfo::new(request.method(), request.uri().path(), &query);
        let mut trace = Trace::begin(
            self,
            &request,
            &info,
            peer,
            self.audit_ids.of(request.headers()),
        );
        let reply = match malformed {
            Some(status) => Reply::status_for(&status, accept.as_ref()),
            None => self.guarded(request, peer, &info, &query, &mut trace).await,
        };
        let audit_id = trace.audit_id.clone();
        let reply = trace.end(self, &info, &query, reply);
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

    /// The answer, in time and without a panic.
    async fn guarded<B>(
        &self,
        request: Request<B>,
        peer: &Peer,
        info: &RequestInfo,
        query: &Query,
        trace: &mut Trace,
    ) -> Reply
    where
        B: http_body::Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let accept = request.headers().get(ACCEPT).cloned();
        let reply = self.reply(request, peer, info, query, trace);
        // It is large, and would be moved about.
        let reply = pin!(AssertUnwindSafe(reply).catch_unwind());
        let caught = if info.long_running {
            reply.await
        } else {
            let caught = peer.timer.within(self.request_timeout, reply).await;
            caught.unwrap_or_else(|| {
                Ok(Err(Status::timeout(
                    "request did not complete within the allotted timeout",
                    0,
                )))
            })
        };
        match caught {
            Ok(Ok(reply)) => reply,
            Ok(Err(status)) => Reply::status_for(&status, accept.as_ref()),
            Err(_) => {
                tracing::error!(path = info.path, "a request ended in a panic");
                Reply::status(&Status::internal_error(
                    "the server failed while it handled the request",
                ))
            }
        }
    }

    async fn reply<B>(
        &self,
        request: Request<B>,
        peer: &Peer,
        info: &RequestInfo,
        query: &Query,
        trace: &mut Trace,
    ) -> Result<Reply, Status>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let (mut parts, body) = request.into_parts();
        let now = self.api.clock.wall();
        let user = authenticate(&self.api, &mut parts.headers, peer, now)?;
        trace.authenticated(self, user.clone());
        let user = match impersonate(&self.api, &user, info, &parts.headers)? {
            None => user,
            Some(other) => {
                trace.impersonated = Some(other.clone());
                other
            }
        };
        // Parts of this process have limits of their own, and others depend on them.
        if peer.known.is_none() {
            trace.place = self.inflight.enter(info)?;
        }
        trace.decision(route::authorize(&self.api, &user, info))?;
        let body = match parts.method {
            Method::POST | Method::PUT | Method::PATCH | Method::DELETE => read_body(body).await?,
            _ => Bytes::new(),
        };
        let upgrade = websocket::is_request(&parts.headers)
            .then(|| parts.extensions.remove::<OnUpgrade>())
            .flatten();
        let admitted = Admitted {
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
            place: trace.place.clone(),
        };
        route::answer(self, admitted).await
    }
}

/// An answer to HEAD tells how long the body would be, and has none.
fn strip_body(response: &mut Response<Body>) {
    if let Some(total) = response.body().bytes_total() {
        response
            .headers_mut()
            .insert(CONTENT_LENGTH, HeaderValue::from(total));
    }
    *response.body_mut() = Body::empty();
}
