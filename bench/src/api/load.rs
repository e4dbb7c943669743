//! Load generator of the API benchmark: creates, gets, updates, patches, deletes, updates with watchers, and lists of
//! config maps.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use tokio::task::JoinSet;

use crate::client::{ApiConnection, ApiRequest, HttpVersion};
use crate::servers::BenchServer;

/// Idle time before the memory of a server is read.
pub(super) const QUIET: Duration = Duration::from_secs(3);

/// Unpaginated lists: name and query.
pub(super) const LISTS: &[(&str, &str)] = &[
    ("list, the latest", "?"),
    ("list, resourceVersion=0", "?resourceVersion=0"),
    (
        "list, by a label of one in 100",
        "?labelSelector=app%3Dapp-7",
    ),
];

const COLLECTION: &str = "/api/v1/namespaces/default/configmaps";
const READERS: usize = 16;
const WRITERS: usize = 16;
const READS: usize = 20_000;
const UPDATES: usize = 5_000;
const WATCHERS: usize = 10;

/// Minimum duration of a list load, so that the resolution of CPU times does not matter.
const LIST_TIME: Duration = Duration::from_secs(2);

/// Elapsed time and server CPU time of one load.
#[derive(Clone, Copy, Debug)]
pub(super) struct ApiLoadResult {
    pub(super) operations: usize,
    pub(super) elapsed: Duration,
    pub(super) cpu: Duration,
}

pub(super) struct ApiLoadGenerator<'a> {
    server: &'a BenchServer<'a>,
    object_bytes: usize,
}

impl<'a> ApiLoadGenerator<'a> {
    pub(super) fn new(server: &'a BenchServer<'a>, object_bytes: usize) -> Self {
        Self {
            server,
            object_bytes,
        }
    }

    pub(super) async fn create(&self, objects: usize, writers: usize) -> Result<ApiLoadResult> {
        let bytes = self.object_bytes;
        self.spread(objects, writers, move |index| {
            ApiRequest::post(COLLECTION.into(), object(index, bytes, 0))
        })
        .await
    }

    pub(super) async fn get(&self, objects: usize) -> Result<ApiLoadResult> {
        self.spread(READS, READERS, move |index| {
            ApiRequest::get(path(scattered(index, objects)))
        })
        .await
    }

    /// Replaces objects, without their resourceVersion. `round` distinguishes the contents of several calls.
    pub(super) async fn update(&self, objects: usize, round: usize) -> Result<ApiLoadResult> {
        let bytes = self.object_bytes;
        self.spread(UPDATES, WRITERS, move |index| {
            let chosen = scattered(index, objects);
            let version = round * UPDATES + index + 1;
            ApiRequest::put(path(chosen), object(chosen, bytes, version))
        })
        .await
    }

    /// Changes one value of each object with a merge patch.
    pub(super) async fn patch(&self, objects: usize) -> Result<ApiLoadResult> {
        self.spread(UPDATES, WRITERS, move |index| {
            let patch = format!(r#"{{"data":{{"version":"patched-{index}"}}}}"#);
            ApiRequest::merge_patch(path(scattered(index, objects)), patch.into())
        })
        .await
    }

    pub(super) async fn delete(&self, objects: usize) -> Result<ApiLoadResult> {
        self.spread(UPDATES.min(objects), WRITERS, |index| {
            ApiRequest::delete(path(index))
        })
        .await
    }

    /// Sends updates and waits until every watcher has received all of them.
    pub(super) async fn watched_updates(&self, objects: usize) -> Result<ApiLoadResult> {
        let mut watchers = JoinSet::new();
        for _ in 0..WATCHERS {
            watchers.spawn(follow(self.watch().await?, UPDATES));
        }
        let (started, before) = (Instant::now(), self.server.usage()?);
        self.update(objects, 1).await?;
        while let Some(ended) = watchers.join_next().await {
            ended??;
        }
        Ok(ApiLoadResult {
            operations: UPDATES,
            elapsed: started.elapsed(),
            cpu: self.server.usage()?.cpu.saturating_sub(before.cpu),
        })
    }

    async fn watch(&self) -> Result<hyper::body::Incoming> {
        let mut connection = self.server.endpoint.connect().await?;
        let list = format!("{COLLECTION}?limit=1");
        let list = connection.execute(Method::GET, &list, Bytes::new()).await?;
        let list: serde_json::Value = serde_json::from_slice(&list)?;
        let version = list["metadata"]["resourceVersion"]
            .as_str()
            .context("list response has no metadata.resourceVersion")?;
        let watch = format!("{COLLECTION}?watch=true&resourceVersion={version}");
        self.server.endpoint.watch(&watch, HttpVersion::One).await
    }

    /// Repeats a list for [`LIST_TIME`].
    pub(super) async fn list(&self, query: &str) -> Result<ApiLoadResult> {
        let path = format!("{COLLECTION}{query}");
        let mut connection = self.server.endpoint.connect().await?;
        self.repeat(async |_| connection.measure(&path).await.map(|_| ()))
            .await
    }

    pub(super) async fn list_in_pages(&self) -> Result<ApiLoadResult> {
        let mut connection = self.server.endpoint.connect().await?;
        self.repeat(async |_| all_pages(&mut connection).await)
            .await
    }

    /// JSON size of one object.
    pub(super) async fn json_bytes(&self) -> Result<usize> {
        let mut connection = self.server.endpoint.connect().await?;
        connection.measure(&path(0)).await
    }

    async fn repeat(
        &self,
        mut once: impl AsyncFnMut(usize) -> Result<()>,
    ) -> Result<ApiLoadResult> {
        let (started, before) = (Instant::now(), self.server.usage()?);
        let mut operations = 0;
        while started.elapsed() < LIST_TIME {
            once(operations).await?;
            operations += 1;
        }
        Ok(ApiLoadResult {
            operations,
            elapsed: started.elapsed(),
            cpu: self.server.usage()?.cpu.saturating_sub(before.cpu),
        })
    }

    /// Sends `requests` requests over `connections` connections, each connection one after the other.
    async fn spread(
        &self,
        requests: usize,
        connections: usize,
        request: impl Fn(usize) -> ApiRequest + Clone + Send + 'static,
    ) -> Result<ApiLoadResult> {
        let next = Arc::new(AtomicUsize::new(0));
        let mut open = Vec::new();
        for _ in 0..connections {
            open.push(self.server.endpoint.connect().await?);
        }
        let (started, before) = (Instant::now(), self.server.usage()?);
        let mut tasks = JoinSet::new();
        for mut connection in open {
            let (next, request) = (next.clone(), request.clone());
            tasks.spawn(async move {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= requests {
                        return anyhow::Ok(());
                    }
                    connection.send_request(request(index)).await?;
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        Ok(ApiLoadResult {
            operations: requests,
            elapsed: started.elapsed(),
            cpu: self.server.usage()?.cpu.saturating_sub(before.cpu),
        })
    }
}

async fn all_pages(connection: &mut ApiConnection) -> Result<()> {
    let mut path = format!("{COLLECTION}?limit=500");
    loop {
        let page = connection.execute(Method::GET, &path, Bytes::new()).await?;
        match continue_token(&page) {
            Some(token) => path = format!("{COLLECTION}?limit=500&continue={token}"),
            None => return Ok(()),
        }
    }
}

/// Extracts the token without parsing the page, to keep client CPU low. Tokens need no escaping.
fn continue_token(page: &[u8]) -> Option<&str> {
    const FIELD: &[u8] = b"\"continue\":\"";
    let head = &page[..page.len().min(1000)];
    let start = head
        .windows(FIELD.len())
        .position(|window| window == FIELD)?
        + FIELD.len();
    let text = std::str::from_utf8(&head[start..]).ok()?;
    text.split_once('"').map(|(token, _)| token)
}

/// Reads watch events until `expected` were received.
async fn follow(mut body: hyper::body::Incoming, expected: usize) -> Result<()> {
    let mut events = 0;
    while events < expected {
        let frame = body.frame().await.context("the server ended the watch")??;
        let data = frame.data_ref().map_or(&[][..], |data| data);
        events += data.iter().filter(|byte| **byte == b'\n').count();
    }
    Ok(())
}

fn name(index: usize) -> String {
    format!("map-{index:07}")
}

fn path(index: usize) -> String {
    format!("{COLLECTION}/{}", name(index))
}

/// Pseudo-random order over the collection without repetition.
fn scattered(index: usize, objects: usize) -> usize {
    // A large prime, coprime to the numbers of objects used here.
    index.wrapping_mul(1_000_003) % objects
}

fn object(index: usize, bytes: usize, version: usize) -> Bytes {
    let app = index % 100;
    let head = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{}","labels":{{"app":"app-{app}","tier":"bench"}}}},"data":{{"version":"{version}","text":""#,
        name(index)
    );
    // Approximate size of the fields that the server adds.
    const ADDED: usize = 150;
    let padding = bytes.saturating_sub(head.len() + ADDED);
    format!("{head}{}\"}}}}", "v".repeat(padding)).into()
}
