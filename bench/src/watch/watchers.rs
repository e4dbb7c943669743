//! Many watchers, each on its own connection, and a record of the events of each. A watcher whose watch is ended by the
//! server resumes from its last resourceVersion, as a client-go reflector does.

use parking_lot::Mutex;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hyper::body::Incoming;
use tokio::task::JoinSet;

use super::event::{self, BodyLineReader, TimedWatchEvent, WatchEventType};
use crate::client::{HttpVersion, ServerEndpoint, WatchConnection};
use crate::pods;

/// Number of connections opened concurrently; TLS handshakes are CPU-bound.
const OPENERS: usize = 16;

/// Interval between checks whether all events have arrived.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// No more events are expected after this time without one.
const QUIET: Duration = Duration::from_secs(1);

/// Minimum time between the starts of a watch that ended without events and its successor.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// Events received by one watcher.
#[derive(Clone, Debug, Default)]
pub(super) struct WatcherRecord {
    pub(super) received: Vec<TimedWatchEvent>,
    /// Number of times the server ended the watch and it was resumed.
    pub(super) resumed: usize,
    /// Why it ended permanently, which is a failure.
    pub(super) end: Option<String>,
}

/// Records of all watchers.
#[derive(Default)]
struct WatcherRecords {
    streams: Vec<Mutex<WatcherRecord>>,
    events: AtomicUsize,
}

impl WatcherRecords {
    fn edit<R>(&self, watcher: usize, edit: impl FnOnce(&mut WatcherRecord) -> R) -> R {
        let mut stream = self.streams[watcher].lock();
        edit(&mut stream)
    }

    fn note(&self, watcher: usize, received: TimedWatchEvent) {
        self.edit(watcher, |stream| stream.received.push(received));
        if received.kind != WatchEventType::Bookmark {
            self.events.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Watchers that read in background tasks until dropped.
pub(super) struct WatcherPool {
    journal: Arc<WatcherRecords>,
    _readers: JoinSet<()>,
}

impl WatcherPool {
    /// Opens one watcher per application, starting at this resourceVersion.
    pub(super) async fn open(
        endpoint: &ServerEndpoint,
        apps: usize,
        version: &str,
        http: HttpVersion,
    ) -> Result<Self> {
        let path = |app: usize| {
            let (collection, selector) = (pods::collection(app), pods::selector(app));
            format!("{collection}?{selector}&{WATCH}")
        };
        let paths = (0..apps).map(path).collect();
        Self::open_all(endpoint, paths, version, http).await
    }

    /// Opens one watcher of all pods.
    pub(super) async fn open_one_of_all(
        endpoint: &ServerEndpoint,
        version: &str,
        http: HttpVersion,
    ) -> Result<Self> {
        Self::open_all(endpoint, vec![of_all()], version, http).await
    }

    async fn open_all(
        endpoint: &ServerEndpoint,
        paths: Vec<String>,
        version: &str,
        http: HttpVersion,
    ) -> Result<Self> {
        let streams = paths.iter().map(|_| Mutex::default()).collect();
        let journal = Arc::new(WatcherRecords {
            streams,
            ..WatcherRecords::default()
        });
        let (paths, next) = (Arc::new(paths), Arc::new(AtomicUsize::new(0)));
        let version: Arc<str> = version.into();
        let mut openers = JoinSet::new();
        for _ in 0..OPENERS {
            let (endpoint, paths, next) = (endpoint.clone(), paths.clone(), next.clone());
            let version = version.clone();
            openers.spawn(async move {
                let mut opened = Vec::new();
                loop {
                    let watcher = next.fetch_add(1, Ordering::Relaxed);
                    let Some(path) = paths.get(watcher) else {
                        return anyhow::Ok(opened);
                    };
                    let open = WatcherReader::open(&endpoint, http, path, &version).await;
                    opened.push((watcher, open.with_context(|| format!("watcher {watcher}"))?));
                }
            });
        }
        let mut readers = JoinSet::new();
        while let Some(opened) = openers.join_next().await {
            for (watcher, reading) in opened?? {
                readers.spawn(reading.read(watcher, journal.clone()));
            }
        }
        Ok(Self {
            journal,
            _readers: readers,
        })
    }

    /// Number of received events without bookmarks.
    pub(super) fn events(&self) -> usize {
        self.journal.events.load(Ordering::Relaxed)
    }

    /// Waits for this total number of events. False if none arrives for `patience`.
    pub(super) async fn wait_for(&self, events: usize, timeout: Duration) -> bool {
        let (mut last, mut since) = (self.events(), Instant::now());
        loop {
            let now = self.events();
            if now >= events {
                return true;
            }
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if since.elapsed() > timeout {
                return false;
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Waits until no event has arrived for [`QUIET`].
    pub(super) async fn wait_until_quiet(&self) {
        // More events than there can be.
        self.wait_for(usize::MAX, QUIET).await;
    }

    /// Total number of resumed watches.
    pub(super) fn resumed(&self) -> usize {
        let watchers = 0..self.journal.streams.len();
        watchers
            .map(|watcher| self.journal.edit(watcher, |stream| stream.resumed))
            .sum()
    }

    /// Copies of all records.
    pub(super) fn streams(&self) -> Vec<WatcherRecord> {
        let watchers = 0..self.journal.streams.len();
        watchers
            .map(|watcher| self.journal.edit(watcher, |stream| stream.clone()))
            .collect()
    }
}

/// Query of every watch; the resourceVersion is appended.
const WATCH: &str = "watch=true&allowWatchBookmarks=true&resourceVersion=";

fn of_all() -> String {
    format!("/api/v1/pods?{WATCH}")
}

/// Watcher with its open watch.
struct WatcherReader {
    connection: WatchConnection,
    /// Path and query without the resourceVersion.
    path: String,
    /// resourceVersion of the last event or bookmark.
    version: String,
    lines: BodyLineReader,
}

impl WatcherReader {
    async fn open(
        endpoint: &ServerEndpoint,
        http: HttpVersion,
        path: &str,
        version: &str,
    ) -> Result<Self> {
        let mut connection = endpoint.connect_to_watch(http).await?;
        let body = connection.watch(&format!("{path}{version}")).await?;
        Ok(Self {
            connection,
            path: path.to_owned(),
            version: version.to_owned(),
            lines: BodyLineReader::new(body),
        })
    }

    async fn read(mut self, watcher: usize, journal: Arc<WatcherRecords>) {
        let Err(end) = self.read_on(watcher, &journal).await;
        journal.edit(watcher, |stream| stream.end = Some(format!("{end:#}")));
    }

    /// Reads and resumes until resuming fails; returns that error.
    async fn read_on(&mut self, watcher: usize, journal: &WatcherRecords) -> Result<Infallible> {
        loop {
            let started = Instant::now();
            let received = self.read_to_end(watcher, journal).await?;
            if received == 0 {
                // Back off after an empty watch, as clients do.
                tokio::time::sleep(SHORT_WATCH.saturating_sub(started.elapsed())).await;
            }
            let Self { path, version, .. } = &self;
            let again = self.connection.watch(&format!("{path}{version}")).await;
            let again = again.context("failed to resume the watch after the server ended it")?;
            self.lines = BodyLineReader::new(again);
            journal.edit(watcher, |stream| stream.resumed += 1);
        }
    }

    /// Reads until the watch ends and returns the number of lines.
    async fn read_to_end(&mut self, watcher: usize, journal: &WatcherRecords) -> Result<usize> {
        let mut received = 0;
        let (lines, version) = (&mut self.lines, &mut self.version);
        let mut each = |line: &[u8]| {
            let parsed = event::parse(line, Instant::now())?;
            *version = parsed.version.to_string();
            received += 1;
            journal.note(watcher, parsed);
            Ok(())
        };
        while lines.next(&mut each).await? {}
        Ok(received)
    }
}

/// Opens unfiltered watches that are never read.
pub(super) async fn open_stalled(
    endpoint: &ServerEndpoint,
    count: usize,
    version: &str,
    http: HttpVersion,
) -> Result<Vec<Incoming>> {
    let mut bodies = Vec::new();
    for _ in 0..count {
        let path = format!("{}{version}", of_all());
        bodies.push(endpoint.stalled_watch(&path, http).await?);
    }
    Ok(bodies)
}
