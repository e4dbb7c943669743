//! Many watchers, each on a connection of its own, and what each was told.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hyper::body::Incoming;
use tokio::task::JoinSet;

use super::event::{self, Kind, Lines, Seen};
use crate::client::{Endpoint, Http};
use crate::pods;

/// How many connections are opened at a time: a handshake takes CPU time, not waiting.
const OPENERS: usize = 16;

/// How often it is looked whether all events have come.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// When nothing has come for so long, nothing is on its way.
const QUIET: Duration = Duration::from_secs(1);

/// What one watcher was told.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    pub(super) seen: Vec<Seen>,
    /// Why it ended, which no watch should while it is needed.
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
            format!("{collection}?{}&{selector}", parameters(version))
        };
        Self::open_all(endpoint, (0..apps).map(path).collect(), http).await
    }

    /// A watcher of all pods there are.
    pub(super) async fn open_one_of_all(
        endpoint: &Endpoint,
        version: &str,
        http: Http,
    ) -> Result<Self> {
        let path = format!("/api/v1/pods?{}", parameters(version));
        Self::open_all(endpoint, vec![path], http).await
    }

    async fn open_all(endpoint: &Endpoint, paths: Vec<String>, http: Http) -> Result<Self> {
        let streams = paths.iter().map(|_| Mutex::default()).collect();
        let journal = Arc::new(Journal {
            streams,
            ..Journal::default()
        });
        let (paths, next) = (Arc::new(paths), Arc::new(AtomicUsize::new(0)));
        let mut openers = JoinSet::new();
        for _ in 0..OPENERS {
            let (endpoint, paths, next) = (endpoint.clone(), paths.clone(), next.clone());
            openers.spawn(async move {
                let mut bodies = Vec::new();
                loop {
                    let watcher = next.fetch_add(1, Ordering::Relaxed);
                    let Some(path) = paths.get(watcher) else {
                        return anyhow::Ok(bodies);
                    };
                    let body = endpoint.watch(path, http).await;
                    bodies.push((watcher, body.with_context(|| format!("watcher {watcher}"))?));
                }
            });
        }
        let mut readers = JoinSet::new();
        while let Some(opened) = openers.join_next().await {
            for (watcher, body) in opened?? {
                readers.spawn(read(body, watcher, journal.clone()));
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

    /// What each was told so far.
    pub(super) fn streams(&self) -> Vec<Stream> {
        let watchers = 0..self.journal.streams.len();
        watchers
            .map(|watcher| self.journal.edit(watcher, |stream| stream.clone()))
            .collect()
    }
}

fn parameters(version: &str) -> String {
    format!("watch=true&allowWatchBookmarks=true&resourceVersion={version}")
}

async fn read(body: Incoming, watcher: usize, journal: Arc<Journal>) {
    let end = match read_lines(body, watcher, &journal).await {
        Ok(()) => "the server ended it".into(),
        Err(problem) => format!("{problem:#}"),
    };
    journal.edit(watcher, |stream| stream.end = Some(end));
}

async fn read_lines(body: Incoming, watcher: usize, journal: &Journal) -> Result<()> {
    let mut lines = Lines::new(body);
    let each = |line: &[u8]| {
        journal.note(watcher, event::parse(line, Instant::now())?);
        Ok(())
    };
    while lines.next(each).await? {}
    Ok(())
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
        let path = format!("/api/v1/pods?{}", parameters(version));
        bodies.push(endpoint.stalled_watch(&path, http).await?);
    }
    Ok(bodies)
}
