//! What every request goes through: who asks, may they, then the answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{ACCEPT, CONTENT_LENGTH, HeaderValue};
use http::{Method, Request, Response};
use hyper::body::Incoming;
use rhumb_auth::User;
use rhumb_meta::{Status, Timestamp};
use rustls_pki_types::CertificateDer;

use super::authenticate::{authenticate, impersonate};
use super::inflight::InFlight;
use super::route;
use crate::Api;
use crate::http::{Body, Reply, accepts_gzip, compress_if_long, read_body};
use crate::request::{Query, RequestInfo};

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Default)]
pub struct Peer {
    pub address: String,
    /// The client's certificates, already checked.
    pub certificates: Vec<CertificateDer<'static>>,
}

/// Answers requests.
#[derive(Debug)]
pub struct Service {
    pub api: Arc<Api>,
    pub inflight: InFlight,
}

/// A request that was let in, with its body read.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) info: RequestInfo,
    pub(super) query: Query,
    pub(super) method: Method,
    pub(super) headers: http::HeaderMap,
    pub(super) body: Bytes,
    pub(super) user: User,
    pub(super) now: Timestamp,
}

impl Service {
    pub fn new(api: Arc<Api>) -> Service {
        Service {
            api,
            inflight: InFlight::default(),
        }
    }

    /// Always gives an answer; a bug in a handler is a 500 of that request alone.
    pub async fn answer(&self, request: Request<Incoming>, peer: &Peer) -> Response<Body> {
        let is_head = request.method() == Method::HEAD;
        let gzip = accepts_gzip(request.headers());
        let accept = request.headers().get(ACCEPT).cloned();
        let reply = match AssertUnwindSafe(self.reply(request, peer))
            .catch_unwind()
            .await
        {
            Ok(Ok(reply)) => reply,
            Ok(Err(status)) => Reply::status_for(&status, accept.as_ref()),
            Err(_) => {
                tracing::error!("a request ended in a panic");
                Reply::status(&Status::internal_error(
                    "the server failed while it handled the request",
                ))
            }
        };
        let mut response = compress_if_long(reply, gzip).into_response();
        if is_head {
            strip_body(&mut response);
        }
        response
    }

    async fn reply(&self, request: Request<Incoming>, peer: &Peer) -> Result<Reply, Status> {
        let (parts, body) = request.into_parts();
        let query = Query::parse(parts.uri.query().unwrap_or_default())?;
        let info = RequestInfo::new(&parts.method, parts.uri.path(), &query);
        let now = self.api.clock.wall();
        let user = authenticate(&self.api, &parts.headers, peer, now)?;
        let user = impersonate(&self.api, user, &info, &parts.headers)?;
        let _permit = self.inflight.enter(&info)?;
        route::authorize(&self.api, &user, &info)?;
        let body = match parts.method {
            Method::POST | Method::PUT | Method::PATCH | Method::DELETE => read_body(body).await?,
            _ => Bytes::new(),
        };
        let admitted = Admitted {
            info,
            query,
            method: parts.method,
            headers: parts.headers,
            body,
            user,
            now,
        };
        route::answer(&self.api, admitted).await
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
