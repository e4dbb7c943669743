//! Many watchers, each on a connection of its own, and what each was told. One whose watch the server ends goes on
//! where it was, as clients do.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hyper::body::Incoming;
use tokio::task::JoinSet;

use super::event::{self, Kind, Lines, Seen};
use crate::client::{Endpoint, Http, WatchConnection};
use crate::pods;

/// How many connections are opened at a time: a handshake takes CPU time, not waiting.
const OPENERS: usize = 16;

/// How often it is looked whether all events have come.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// When nothing has come for so long, nothing is on its way.
const QUIET: Duration = Duration::from_secs(1);

/// A watch that was told nothing and ended before this is not begun anew before.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// What one watcher was told.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    pub(super) seen: Vec<Seen>,
    /// How often the server ended it, and it went on.
    pub(super) resumed: usize,
    /// Why it ended for good, which no watch should while it is needed.
    pub(super) end: Option<String>,
}

/// What all watchers were told.
#[derive(Default)]
struct Journal {
    streams: Vec<Mutex<Stream>>,
    events: AtomicUsize,
}

impl Journal {
    fn edit<R>(&self, watcher: usize, edit: impl FnOnce(&mut Stream) -> R) -> R {
        let stream = self.streams[watcher].lock();
        edit(&mut stream.unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, watcher: usize, seen: Seen) {
        self.edit(watcher, |stream| stream.seen.push(seen));
        if seen.kind != Kind::Bookmark {
            self.events.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Watchers that read until they are dropped.
pub(super) struct Watchers {
    journal: Arc<Journal>,
    _readers: JoinSet<()>,
}

impl Watchers {
    /// One watcher for each application, from this version on.
    pub(super) async fn open(
        endpoint: &Endpoint,
        apps: usize,
        version: &str,
        http: Http,
    ) -> Result<Self> {
        let path = |app: usize| {
            let (collection, selector) = (pods::collection(app), pods::selector(app));
            format!("{collection}?{selector}&{WATCH}")
        };
        let paths = (0..apps).map(path).collect();
        Self::open_all(endpoint, paths, version, http).await
    }

    /// A watcher of all pods there are.
    pub(super) async fn open_one_of_all(
        endpoint: &Endpoint,
        version: &str,
        http: Http,
    ) -> Result<Self> {
        Self::open_all(endpoint, vec![of_all()], version, http).await
    }

    async fn open_all(
        endpoint: &Endpoint,
        paths: Vec<String>,
        version: &str,
        http: Http,
    ) -> Result<Self> {
        let streams = paths.iter().map(|_| Mutex::default()).collect();
        let journal = Arc::new(Journal {
            streams,
            ..Journal::default()
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
                    let open = Reading::open(&endpoint, http, path, &version).await;
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

    /// How many events came, bookmarks not counted.
    pub(super) fn events(&self) -> usize {
        self.journal.events.load(Ordering::Relaxed)
    }

    /// Waits for so many events in all, as long as some still come. False when they stopped before.
    pub(super) async fn wait_for(&self, events: usize, patience: Duration) -> bool {
        let (mut last, mut since) = (self.events(), Instant::now());
        loop {
            let now = self.events();
            if now >= events {
                return true;
            }
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if since.elapsed() > patience {
                return false;
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Waits until nothing has come for a while.
    pub(super) async fn wait_until_quiet(&self) {
        // More events than there can be.
        self.wait_for(usize::MAX, QUIET).await;
    }

    /// How often any of them went on after the server ended its watch.
    pub(super) fn resumed(&self) -> usize {
        let watchers = 0..self.journal.streams.len();
        watchers
            .map(|watcher| self.journal.edit(watcher, |stream| stream.resumed))
            .sum()
    }

    /// What each was told so far.
    pub(super) fn streams(&self) -> Vec<Stream> {
        let watchers = 0..self.journal.streams.len();
        watchers
            .map(|watcher| self.journal.edit(watcher, |stream| stream.clone()))
            .collect()
    }
}

/// What every watch says. The version follows.
const WATCH: &str = "watch=true&allowWatchBookmarks=true&resourceVersion=";

fn of_all() -> String {
    format!("/api/v1/pods?{WATCH}")
}

/// A watcher that reads.
struct Reading {
    connection: WatchConnection,
    /// What it asks for, up to the version.
    path: String,
    /// How far it has been told all.
    version: String,
    lines: Lines,
}

impl Reading {
    async fn open(endpoint: &Endpoint, http: Http, path: &str, version: &str) -> Result<Self> {
        let mut connection = endpoint.connect_to_watch(http).await?;
        let body = connection.watch(&format!("{path}{version}")).await?;
        Ok(Self {
            connection,
            path: path.to_owned(),
            version: version.to_owned(),
            lines: Lines::new(body),
        })
    }

    async fn read(mut self, watcher: usize, journal: Arc<Journal>) {
        let Err(end) = self.read_on(watcher, &journal).await;
        journal.edit(watcher, |stream| stream.end = Some(format!("{end:#}")));
    }

    /// Reads until the watch cannot go on, and says why.
    async fn read_on(&mut self, watcher: usize, journal: &Journal) -> Result<Infallible> {
        loop {
            let begun = Instant::now();
            let told = self.read_to_end(watcher, journal).await?;
            if told == 0 {
                // As clients do, who do not begin anew at once what ended at once.
                tokio::time::sleep(SHORT_WATCH.saturating_sub(begun.elapsed())).await;
            }
            let Self { path, version, .. } = &self;
            let again = self.connection.watch(&format!("{path}{version}")).await;
            let again = again.context("the server ended it, and it could not go on")?;
            self.lines = Lines::new(again);
            journal.edit(watcher, |stream| stream.resumed += 1);
        }
    }

    /// How many lines there were.
    async fn read_to_end(&mut self, watcher: usize, journal: &Journal) -> Result<usize> {
        let mut told = 0;
        let (lines, version) = (&mut self.lines, &mut self.version);
        let mut each = |line: &[u8]| {
            let seen = event::parse(line, Instant::now())?;
            *version = seen.version.to_string();
            told += 1;
            journal.note(watcher, seen);
            Ok(())
        };
        while lines.next(&mut each).await? {}
        Ok(told)
    }
}

/// Watchers of everything whose clients never read; they stay so until they are dropped.
pub(super) async fn open_stalled(
    endpoint: &Endpoint,
    count: usize,
    version: &str,
    http: Http,
) -> Result<Vec<Incoming>> {
    let mut bodies = Vec::new();
    for _ in 0..count {
        let path = format!("{}{version}", of_all());
        bodies.push(endpoint.stalled_watch(&path, http).await?);
    }
    Ok(bodies)
}
