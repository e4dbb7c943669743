//! Streams of changes: etcd watches, one after the other, that read like one.

use std::collections::VecDeque;
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{GetOptions, WatchOptions, WatchResponse, WatchStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::backoff::Backoff;
use super::convert::{self, Failure, Kind, from_etcd, header_revision, to_etcd};
use super::feed::Feed;
use super::link::{Link, answer};
use super::read;
use crate::{ChangeEvent, ChangeStream, Error, Result, Revision};

/// How many events wait for a slow reader.
const EVENTS_WAITING_MAX: usize = 64;

/// A reader that takes nothing for this long loses its watch until it goes on: the data waiting for it
/// would fill the window that all calls on the connection share.
const STALL_TIMEOUT: Duration = Duration::from_secs(1);

/// How often progress is asked for until it is told: a server that is still catching up does not answer.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

pub(super) async fn changes(
    link: &Link,
    prefix: &str,
    after: Revision,
) -> Result<Box<dyn ChangeStream>> {
    let deadline = link.deadline();
    let mut backoff = Backoff::new(50, 1000);
    let (events, received) = mpsc::channel(EVENTS_WAITING_MAX);
    let (target, targets) = watch::channel(Revision::ZERO);
    let follower = Follower {
        link: link.clone(),
        prefix: prefix.to_owned(),
        feed: Feed::new(after),
        events,
        targets,
    };
    let stream = loop {
        match follower.open().await {
            Ok(stream) => break stream,
            Err(Ended::Over(error)) => return Err(error),
            Err(Ended::Lost(reason)) => {
                if !backoff.wait_before(deadline).await {
                    return Err(Error::Unavailable { reason });
                }
            }
        }
    };
    Ok(Box::new(Changes {
        link: link.clone(),
        events: received,
        target,
        follower: tokio::spawn(follower.run(stream)),
    }))
}

/// The reader's end of a stream.
#[derive(Debug)]
struct Changes {
    link: Link,
    events: mpsc::Receiver<Result<ChangeEvent>>,
    target: watch::Sender<Revision>,
    follower: JoinHandle<()>,
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

#[async_trait]
impl ChangeStream for Changes {
    async fn next(&mut self) -> Result<ChangeEvent> {
        self.events.recv().await.unwrap_or(Err(Error::Closed))
    }

    async fn request_progress(&mut self) -> Result<()> {
        match self.link.version {
            Some(version) if version.keeps_progress_in_order() => {}
            version => {
                let version = version.map_or("unknown".to_owned(), |version| version.to_string());
                return Err(Error::Unsupported {
                    reason: format!(
                        "etcd {version} may report progress before the changes that belong to it; \
                         use 3.4.31, 3.5.13, 3.6 or later"
                    ),
                });
            }
        }
        // The server of the watch may be behind the others: what counts is the revision of them all.
        let current = read::revision(&self.link).await?;
        self.target.send_replace(current);
        Ok(())
    }
}

/// Why a watch no longer feeds the stream.
enum Ended {
    /// The next one goes on where it was.
    Lost(String),
    /// And so is the stream.
    Over(Error),
}

/// The server's end of a stream.
struct Follower {
    link: Link,
    prefix: String,
    feed: Feed,
    events: mpsc::Sender<Result<ChangeEvent>>,
    targets: watch::Receiver<Revision>,
}

impl Follower {
    /// Ends when the stream does; otherwise the reader aborts it.
    async fn run(mut self, mut stream: WatchStream) {
        loop {
            let mut waiting = VecDeque::new();
            let ended = self.follow(stream, &mut waiting).await;
            // The watch is closed by now, and the reader may take its time.
            self.pass_on(&mut waiting).await;
            stream = match self.resume(ended).await {
                Ok(stream) => stream,
                Err(error) => {
                    // Only a reader that is gone does not take it.
                    let _ = self.events.send(Err(error)).await;
                    return;
                }
            };
        }
    }

    /// Passes on what comes from one watch, until it ends or the reader stalls.
    async fn follow(
        &mut self,
        stream: WatchStream,
        waiting: &mut VecDeque<ChangeEvent>,
    ) -> Option<Ended> {
        // Dropping either half would close the watch.
        let (mut requests, mut messages) = stream.split();
        let mut progress = interval(PROGRESS_INTERVAL);
        progress.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = messages.message() => {
                    let taken = match message {
                        Ok(Some(message)) => self.take(&message, waiting),
                        Ok(None) => Err(Ended::Lost("etcd ended the stream".to_owned())),
                        Err(error) => Err(Ended::Lost(Failure::from(error).reason)),
                    };
                    if let Err(ended) = taken {
                        return Some(ended);
                    }
                }
                Ok(()) = self.targets.changed() => {
                    self.feed.want(*self.targets.borrow_and_update());
                }
                _ = progress.tick(), if self.feed.is_wanted() => {
                    if let Err(error) = requests.request_progress().await {
                        return Some(Ended::Lost(Failure::from(error).reason));
                    }
                }
            }
            waiting.extend(self.feed.reached().map(ChangeEvent::Progress));
            if timeout(STALL_TIMEOUT, self.pass_on(waiting)).await.is_err() {
                return None;
            }
        }
    }

    /// Loses nothing when given up half-way.
    async fn pass_on(&self, waiting: &mut VecDeque<ChangeEvent>) {
        while !waiting.is_empty() {
            let Ok(place) = self.events.reserve().await else {
                return;
            };
            if let Some(event) = waiting.pop_front() {
                place.send(Ok(event));
            }
        }
    }

    /// Sorts one message of the server into what waits for the reader.
    fn take(
        &mut self,
        message: &WatchResponse,
        waiting: &mut VecDeque<ChangeEvent>,
    ) -> Result<(), Ended> {
        if message.canceled() {
            let failure = cancellation(message);
            let requested = self.feed.position();
            return Err(match failure.kind {
                Kind::Compacted => Ended::Over(Error::Compacted {
                    requested,
                    oldest: from_etcd(message.compact_revision()),
                }),
                _ => Ended::Lost(failure.reason),
            });
        }
        if message.created() {
            return Ok(());
        }
        if message.events().is_empty() {
            if let Ok(revision) = header_revision(message.header()) {
                self.feed.advance(revision);
            }
            return Ok(());
        }
        let changes: Result<Vec<_>> = message
            .events()
            .iter()
            .filter_map(convert::change)
            .collect();
        let sets = self.feed.take(changes.map_err(Ended::Over)?);
        waiting.extend(sets.into_iter().map(ChangeEvent::Changes));
        Ok(())
    }

    /// A new watch from where the last one ended, however long it takes to get one.
    async fn resume(&self, ended: Option<Ended>) -> Result<WatchStream> {
        let prefix = self.prefix.as_str();
        match ended {
            Some(Ended::Over(error)) => return Err(error),
            Some(Ended::Lost(reason)) => {
                tracing::warn!(
                    prefix,
                    reason,
                    "a stream of changes lost its connection to etcd"
                );
            }
            None => tracing::debug!(prefix, "a stream of changes waited for its reader"),
        }
        let mut backoff = Backoff::new(50, 2000);
        loop {
            match self.open().await {
                Ok(stream) => {
                    let position = self.feed.position();
                    tracing::info!(prefix, %position, "a stream of changes goes on");
                    return Ok(stream);
                }
                Err(Ended::Over(error)) => return Err(error),
                Err(Ended::Lost(reason)) => {
                    tracing::debug!(prefix, reason, "a stream of changes has no connection yet");
                }
            }
            backoff.wait().await;
        }
    }

    /// A watch from the current position, if the history from there on is whole.
    async fn open(&self) -> Result<WatchStream, Ended> {
        let opened = match self.create().await {
            Err(failure) if failure.kind == Kind::Denied => self.create_with_new_token().await,
            created => created,
        };
        match opened {
            Ok(stream) => self.check_history().await.map(|()| stream),
            Err(failure) => Err(self.over_or_lost(failure).await),
        }
    }

    /// Some servers call it a lack of permission when a watch comes with an expired token. Any read renews
    /// the token.
    async fn create_with_new_token(&self) -> Result<WatchStream, Failure> {
        let options = GetOptions::new().with_keys_only();
        self.link.read(self.any_key(), options).await?;
        self.create().await
    }

    async fn create(&self) -> Result<WatchStream, Failure> {
        let deadline = self.link.deadline();
        let options = WatchOptions::new()
            .with_prefix()
            .with_start_revision(to_etcd(self.known_position()).saturating_add(1))
            .with_progress_notify();
        let mut watch = self.link.watch();
        let mut stream = answer(deadline, watch.watch(self.prefix.as_str(), Some(options))).await?;
        let first = answer(deadline, stream.message()).await?;
        match first {
            Some(message) if message.canceled() => Err(cancellation(&message)),
            Some(message) if message.created() => Ok(stream),
            _ => Err(Failure::lost("etcd did not begin the stream")),
        }
    }

    /// etcd lets a watch begin one revision too early after a compaction, where it may miss a delete
    /// (etcd#19179); a read at the position is refused exactly as it should be.
    async fn check_history(&self) -> Result<(), Ended> {
        let options = GetOptions::new()
            .with_keys_only()
            .with_revision(to_etcd(self.known_position()));
        match self.link.read(self.any_key(), options).await {
            Ok(_) => Ok(()),
            // It is allowed to begin in the future, but not to come back to an earlier time.
            Err(failure) if failure.kind == Kind::FutureRevision && !self.feed.has_moved() => {
                Ok(())
            }
            Err(failure) => Err(self.over_or_lost(failure).await),
        }
    }

    async fn over_or_lost(&self, failure: Failure) -> Ended {
        match failure.kind {
            Kind::Compacted | Kind::FutureRevision => {
                let position = self.feed.position();
                Ended::Over(read::at_revision(&self.link, position, failure).await)
            }
            Kind::Denied => Ended::Over(failure.into_error()),
            _ => Ended::Lost(failure.reason),
        }
    }

    /// One that whoever may follow the prefix may read.
    fn any_key(&self) -> &[u8] {
        if self.prefix.is_empty() {
            b"\0"
        } else {
            self.prefix.as_bytes()
        }
    }

    /// A store begins at revision one, with nothing in it: to begin before it is the same, and zero means
    /// something else to etcd.
    fn known_position(&self) -> Revision {
        self.feed.position().max(Revision::new(1))
    }
}

/// Why the server cancelled a watch.
fn cancellation(message: &WatchResponse) -> Failure {
    let reason = message.cancel_reason().to_owned();
    if message.compact_revision() > 0 {
        Failure {
            kind: Kind::Compacted,
            reason,
        }
    } else if reason.contains("permission denied") || reason.contains("auth") {
        Failure::denied(reason)
    } else {
        Failure::lost(format!("etcd cancelled the stream: {reason}"))
    }
}
