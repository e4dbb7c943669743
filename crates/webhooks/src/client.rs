//! One call, from the first look at where the server is to the last byte of its answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Method, Request};
use http_body_util::Full;
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

use crate::answer;
use crate::error::CallError;
use crate::lookups::Lookups;
use crate::pools::{Key, Pool, Pools};
use crate::shares::{self, Shares};
use crate::target::{Address, Place, Resolver, Target};
use crate::texts;
use crate::trust::Roots;

/// How many calls are under way at once, to whomever: the full shares of 64 servers, so that it takes as many that
/// hang before one that does not is kept waiting. It is for connections, and what is read from them. The memory of
/// requests it does not bound, and neither does a share: a call that waits holds its body as one that is under way
/// does. That is bounded by who calls: the server lets only so many writes wait for somebody outside, each asks as
/// many webhooks as match it, and none waits longer than its time-out.
const MAX_CALLS: usize = 64 * shares::MAX_CALLS;

/// Calls webhook servers. Copies share their connections.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    resolver: Arc<dyn Resolver>,
    pools: Pools<Pool>,
    lookups: Lookups,
    shares: Shares,
    system_roots: OnceCell<Roots>,
    room: Semaphore,
}

impl Client {
    pub fn new(resolver: Arc<dyn Resolver>) -> Client {
        let shared = Arc::new(Shared {
            resolver,
            pools: Pools::new(Instant::now()),
            lookups: Lookups::of_system(),
            shares: Shares::default(),
            system_roots: OnceCell::new(),
            room: Semaphore::new(MAX_CALLS),
        });
        Client { shared }
    }

    /// Posts JSON and gives back the body of the answer, if that is a success. `timeout` is for everything
    /// together. Whoever drops the call ends it: its stream, or its connection if that is HTTP/1.1.
    pub async fn post(
        &self,
        target: &Target,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, CallError> {
        let url = target.url_within(timeout);
        let call = self.shared.call(target, &url, body);
        match tokio::time::timeout(timeout, call).await {
            Ok(outcome) => outcome,
            Err(_) => Err(CallError::DeadlineExceeded { url }),
        }
    }
}

impl Shared {
    async fn call(&self, target: &Target, url: &str, body: Bytes) -> Result<Bytes, CallError> {
        let broken = |cause: String| CallError::Connection {
            url: url.to_owned(),
            cause,
        };
        let request = request(url, body).map_err(|error| broken(error.to_string()))?;
        let share = self.shares.of(target.place());
        // Calls to a server that hangs wait for the room of that server before they take some from all others.
        let (_of_this_server, addresses) = self.turn(target, &share).await.map_err(broken)?;
        let pool = self.pool(target, addresses).await?;
        let _of_all = self.room.acquire().await;
        let response = pool.http.request(request).await;
        let response = response.map_err(|error| broken(texts::cause(&error)))?;
        answer::read(response).await
    }

    /// Waits for the turn of a call, and says where the server is by then. A service that is nowhere is not waited
    /// for, and one that moved in the meantime is called at its new place.
    async fn turn<'s>(
        &self,
        target: &Target,
        share: &'s Semaphore,
    ) -> Result<(Option<SemaphorePermit<'s>>, Vec<Address>), String> {
        let addresses = self.addresses(target)?;
        if let Ok(permit) = share.try_acquire() {
            return Ok((Some(permit), addresses));
        }
        // It is never closed.
        let permit = share.acquire().await.ok();
        Ok((permit, self.addresses(target)?))
    }

    fn addresses(&self, target: &Target) -> Result<Vec<Address>, String> {
        match target.place() {
            Place::Fixed(address) => Ok(vec![address.clone()]),
            Place::Service(service) => self.resolver.resolve(service),
        }
    }

    async fn pool(&self, target: &Target, addresses: Vec<Address>) -> Result<Arc<Pool>, CallError> {
        let key = Key::new(target, addresses);
        if let Some(pool) = self.pools.get(&key, Instant::now()) {
            return Ok(pool);
        }
        let pool = match target.ca_bundle() {
            Some(bundle) => Pool::new(&key, &Roots::of_bundle(&bundle.pem)?, &self.lookups)?,
            None => Pool::new(&key, self.system_roots().await?, &self.lookups)?,
        };
        Ok(self.pools.add(key, pool, Instant::now()))
    }

    /// The roots of the system are read when they are first needed, and not again while the server runs.
    async fn system_roots(&self) -> Result<&Roots, CallError> {
        let read = || async {
            tokio::task::spawn_blocking(Roots::of_system)
                .await
                .unwrap_or_else(|error| Err(CallError::CaBundle(error.to_string())))
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

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("pools", &self.shared.pools)
            .finish_non_exhaustive()
    }
}
