//! One call, from the first look at where the server is to the last byte of its answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Method, Request};
use http_body_util::Full;
use tokio::sync::{OnceCell, Semaphore};

use crate::answer;
use crate::error::CallError;
use crate::pools::{Key, Pool, Pools};
use crate::target::{Address, Place, Resolver, Target};
use crate::texts;
use crate::trust::Roots;

/// How many calls there are at once, to whomever.
const MAX_CALLS: usize = 1024;

/// Calls webhook servers. Copies share their connections.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    resolver: Arc<dyn Resolver>,
    pools: Pools<Pool>,
    system_roots: OnceCell<Roots>,
    room: Semaphore,
}

impl Client {
    pub fn new(resolver: Arc<dyn Resolver>) -> Client {
        let shared = Arc::new(Shared {
            resolver,
            pools: Pools::new(Instant::now()),
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
        let addresses = self.addresses(target).map_err(broken)?;
        let pool = self.pool(target, addresses).await?;
        // Neither of the two is ever closed. Calls to a server that hangs wait for the room of that server
        // before they take some from all others.
        let _of_this_server = pool.room.acquire().await;
        let _of_all = self.room.acquire().await;
        let response = pool.http.request(request).await;
        let response = response.map_err(|error| broken(texts::cause(&error)))?;
        answer::read(response).await
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
            Some(bundle) => Pool::new(&key, &Roots::of_bundle(&bundle.pem)?)?,
            None => Pool::new(&key, self.system_roots().await?)?,
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
