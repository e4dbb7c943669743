//! [`WebhookClient`]: performs one call, from address resolution to reading the response body.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Method, Request};
use http_body_util::Full;
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

use crate::certificate_verification::RootCertificates;
use crate::concurrency_limits::{self, ServerCallLimits};
use crate::error::WebhookCallError;
use crate::error_texts;
use crate::host_resolver::HostResolver;
use crate::pools::{ConnectionPool, ConnectionPools, PoolKey};
use crate::response;
use crate::target::{ServiceResolver, TargetAddress, TargetLocation, WebhookTarget};

/// Maximum number of concurrent calls to all servers: the full share of 64 servers, so that 64 servers have to hang
/// before calls to a healthy one are delayed. The limit bounds connections and the response data read from them. It
/// does not bound the memory of request bodies, because a waiting call holds its body too. The caller bounds that: the
/// API server limits how many writes may wait for webhooks, each write calls only the webhooks that match it, and each
/// call ends at its timeout.
const MAX_CONCURRENT_CALLS: usize = 64 * concurrency_limits::MAX_CALLS_PER_SERVER;

/// Calls webhook servers. Clones share connections and limits.
#[derive(Clone)]
pub struct WebhookClient {
    inner: Arc<WebhookClientInner>,
}

/// What the clones of a client share.
struct WebhookClientInner {
    resolver: Arc<dyn ServiceResolver>,
    pools: ConnectionPools<ConnectionPool>,
    lookups: HostResolver,
    server_limits: ServerCallLimits,
    system_roots: OnceCell<RootCertificates>,
    call_permits: Semaphore,
}

impl WebhookClient {
    pub fn new(resolver: Arc<dyn ServiceResolver>) -> WebhookClient {
        let inner = Arc::new(WebhookClientInner {
            resolver,
            pools: ConnectionPools::new(Instant::now()),
            lookups: HostResolver::system(),
            server_limits: ServerCallLimits::default(),
            system_roots: OnceCell::new(),
            call_permits: Semaphore::new(MAX_CONCURRENT_CALLS),
        });
        WebhookClient { inner }
    }

    /// Posts JSON and returns the body of a successful response. `timeout` covers the whole call. Dropping the future
    /// cancels the call: its HTTP/2 stream is reset, or its HTTP/1.1 connection closed.
    pub async fn post(
        &self,
        target: &WebhookTarget,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, WebhookCallError> {
        let url = target.url_with_timeout(timeout);
        let call = self.inner.call(target, &url, body);
        match tokio::time::timeout(timeout, call).await {
            Ok(outcome) => outcome,
            Err(_) => Err(WebhookCallError::DeadlineExceeded { url }),
        }
    }
}

impl WebhookClientInner {
    async fn call(
        &self,
        target: &WebhookTarget,
        url: &str,
        body: Bytes,
    ) -> Result<Bytes, WebhookCallError> {
        let broken = |cause: String| WebhookCallError::Connection {
            url: url.to_owned(),
            cause,
        };
        let request = request(url, body).map_err(|error| broken(error.to_string()))?;
        let call = self.server_limits.begin_call(target.location());
        // Acquire the server's own permit first: calls to a hanging server must not take permits from the global limit.
        let (_server_permit, addresses) = self
            .acquire_permit(target, call.permits())
            .await
            .map_err(broken)?;
        let pool = self.pool(target, addresses).await?;
        let _call_permit = self.call_permits.acquire().await;
        let response = pool.http.request(request).await;
        let response = response.map_err(|error| broken(error_texts::error_message(&error)))?;
        response::read_response(response).await
    }

    /// Acquires a permit for the server and resolves its addresses. An unresolvable Service fails at once instead of
    /// waiting for a permit. The addresses are resolved again after a wait, because the Service may have moved.
    async fn acquire_permit<'s>(
        &self,
        target: &WebhookTarget,
        permits: &'s Semaphore,
    ) -> Result<(Option<SemaphorePermit<'s>>, Vec<TargetAddress>), String> {
        let addresses = self.addresses(target)?;
        if let Ok(permit) = permits.try_acquire() {
            return Ok((Some(permit), addresses));
        }
        // The semaphore is never closed.
        let permit = permits.acquire().await.ok();
        Ok((permit, self.addresses(target)?))
    }

    fn addresses(&self, target: &WebhookTarget) -> Result<Vec<TargetAddress>, String> {
        match target.location() {
            TargetLocation::Fixed(address) => Ok(vec![address.clone()]),
            TargetLocation::Service(service) => self.resolver.resolve(service),
        }
    }

    async fn pool(
        &self,
        target: &WebhookTarget,
        addresses: Vec<TargetAddress>,
    ) -> Result<Arc<ConnectionPool>, WebhookCallError> {
        let key = PoolKey::new(target, addresses);
        if let Some(pool) = self.pools.get(&key, Instant::now()) {
            return Ok(pool);
        }
        let pool = match target.ca_bundle() {
            Some(bundle) => ConnectionPool::new(
                &key,
                &RootCertificates::from_pem_bundle(&bundle.pem)?,
                &self.lookups,
            )?,
            None => ConnectionPool::new(&key, self.system_roots().await?, &self.lookups)?,
        };
        Ok(self.pools.add(key, pool, Instant::now()))
    }

    /// Loads the system's root certificates on first use; later changes are not picked up while the process runs.
    async fn system_roots(&self) -> Result<&RootCertificates, WebhookCallError> {
        let read = || async {
            tokio::task::spawn_blocking(RootCertificates::from_system)
                .await
                .unwrap_or_else(|error| Err(WebhookCallError::CaBundle(error.to_string())))
        };
        self.system_roots.get_or_try_init(read).await
    }
}

fn request(url: &str, body: Bytes) -> Result<Request<Full<Bytes>>, http::Error> {
    Request::builder()
        .method(Method::POST)
        .uri(url)
        .header(ACCEPT, HeaderValue::from_static("application/json, */*"))
        .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
        .header(
            USER_AGENT,
            HeaderValue::from_static("kube-apiserver-admission"),
        )
        .body(Full::new(body))
}

impl std::fmt::Debug for WebhookClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookClient")
            .field("pools", &self.inner.pools)
            .finish_non_exhaustive()
    }
}
