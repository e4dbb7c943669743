//! Streams of changes: etcd watches, one after the other, that read like one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{WatchResponse, WatchStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::backoff::Backoff;
use super::convert::{self, Failure, Kind, from_etcd, header_revision};
use super::feed::Feed;
use super::link::Link;
use super::members::Member;
use super::opening::cancellation;
use super::queue::{Receiver, Sender, queue};
use super::read;
use crate::types::check_prefix;
use crate::{ChangeEvent, ChangeStream, Error, Result, Revision};

/// A reader whose queue is full for this long loses its watch until it goes on: the data waiting for it
/// would fill the window that all streams on the connection share.
const STALL_TIMEOUT: Duration = Duration::from_millis(100);

/// The answer to a request for progress belongs to no watch.
const NO_WATCH: i64 = -1;

/// How often progress is asked for until it is told: a server that is still catching up does not answer.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

pub(super) async fn changes(
    link: &Link,
    prefix: &str,
    after: Revision,
) -> Result<Box<dyn ChangeStream>> {
    check_prefix(prefix)?;
    let deadline = link.deadline();
    let mut backoff = Backoff::new(50, 1000);
    let (events, received) = queue();
    let (target, targets) = watch::channel(Revision::ZERO);
    let mut follower = Follower {
        link: link.clone(),
        prefix: prefix.to_owned(),
        feed: Feed::new(after),
        cluster_id: None,
        events,
        targets,
    };
    let opened = loop {
        match follower.open().await {
            Ok(opened) => break opened,
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
        follower: tokio::spawn(follower.run(opened)),
    }))
}

/// The reader's end of a stream.
#[derive(Debug)]
struct Changes {
    link: Link,
    events: Receiver,
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
        self.events.next().await
    }

    async fn request_progress(&mut self) -> Result<()> {
        if !self.link.keeps_progress_in_order() {
            let version = self.link.version;
            let version = version.map_or("unknown".to_owned(), |version| version.to_string());
            return Err(Error::Unsupported {
                reason: format!(
                    "etcd {version} may report progress before the changes that belong to it; use \
                     3.4.31, 3.5.13, 3.6 or later"
                ),
            });
        }
        // The server of the watch may be behind the others: what counts is the revision of them all.
        let current = read::revision(&self.link).await?;
        self.target.send_replace(current);
        Ok(())
    }
}

/// Why a watch no longer feeds the stream.
pub(super) enum Ended {
    /// The next one goes on where it was.
    Lost(String),
    /// And so is the stream.
    Over(Error),
}

/// A watch, and the server it is on.
pub(super) struct Opened {
    pub(super) stream: WatchStream,
    pub(super) member: Arc<Member>,
}

/// The server's end of a stream.
pub(super) struct Follower {
    pub(super) link: Link,
    pub(super) prefix: String,
    pub(super) feed: Feed,
    /// Of the cluster that the position belongs to.
    pub(super) cluster_id: Option<u64>,
    events: Sender,
    targets: watch::Receiver<Revision>,
}

impl Follower {
    /// Ends when the stream does; otherwise the reader aborts it.
    async fn run(mut self, mut opened: Opened) {
        loop {
            let mut waiting = VecDeque::new();
            let ended = self.follow(opened, &mut waiting).await;
            // The watch is closed by now, and the reader may take its time.
            self.events.send_all(&mut waiting).await;
            opened = match self.resume(ended).await {
                Ok(opened) => opened,
                Err(error) => return self.events.end(error).await,
            };
        }
    }

    /// Passes on what comes from one watch, until it ends or the reader stalls.
    async fn follow(
        &mut self,
        opened: Opened,
        waiting: &mut VecDeque<ChangeEvent>,
    ) -> Option<Ended> {
        // Dropping either half would close the watch.
        let (mut requests, mut messages) = opened.stream.split();
        let mut progress = interval(PROGRESS_INTERVAL);
        progress.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = messages.message() => {
                    let taken = match message {
                        Ok(Some(message)) => self.take(&message, waiting).await,
                        Ok(None) => Err(Ended::Lost("etcd ended the stream".to_owned())),
                        Err(error) => {
                            opened.member.failed();
                            Err(Ended::Lost(Failure::from(error).reason))
                        }
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
            waiting.extend(self.feed.progress().map(ChangeEvent::Progress));
            let sent = timeout(STALL_TIMEOUT, self.events.send_all(waiting)).await;
            if sent.is_err() {
                return None;
            }
        }
    }

    /// Sorts one message of the server into what waits for the reader.
    async fn take(
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
            if let Ok(revision) = header_revision(message.header())
                && (message.watch_id() != NO_WATCH || self.link.keeps_progress_in_order())
            {
                self.feed.advance(revision);
            }
            return Ok(());
        }
        if !self.link.keeps_deletion_at_compaction() && is_from_history(message) {
            self.check_history().await?;
        }
        let changes: Result<Vec<_>> = message
            .events()
            .iter()
            .filter_map(convert::change)
            .collect();
        // A large message comes in parts, which may be of one revision.
        let more_follows = message.0.fragment;
        let sets = self.feed.take(changes.map_err(Ended::Over)?, more_follows);
        waiting.extend(sets.into_iter().map(ChangeEvent::Changes));
        Ok(())
    }

    /// A new watch from where the last one ended, however long it takes to get one.
    async fn resume(&mut self, ended: Option<Ended>) -> Result<Opened> {
        self.feed.begin_again();
        let was_lost = ended.is_some();
        match ended {
            Some(Ended::Over(error)) => return Err(error),
            Some(Ended::Lost(reason)) => {
                tracing::warn!(
                    prefix = self.prefix,
                    reason,
                    "a stream of changes lost its connection to etcd"
                );
            }
            None => {
                tracing::debug!(
                    prefix = self.prefix,
                    "a stream of changes waited for its reader"
                );
            }
        }
        let mut backoff = Backoff::new(50, 2000);
        loop {
            let opened = self.open().await;
            let prefix = self.prefix.as_str();
            match opened {
                Ok(opened) => {
                    let position = self.feed.position();
                    if was_lost {
                        tracing::info!(prefix, %position, "a stream of changes goes on");
                    }
                    return Ok(opened);
                }
                Err(Ended::Over(error)) => return Err(error),
                Err(Ended::Lost(reason)) => {
                    tracing::debug!(prefix, reason, "a stream of changes has no connection yet");
                }
            }
            backoff.wait().await;
        }
    }
}

/// Whether the server read the changes from its history. One that keeps up with the store sends those of
/// one revision at once, at that revision.
fn is_from_history(message: &WatchResponse) -> bool {
    let mut revisions = message
        .events()
        .iter()
        .filter_map(|event| event.kv())
        .map(|kv| from_etcd(kv.mod_revision()));
    let sent_at = header_revision(message.header()).ok();
    revisions.any(|revision| Some(revision) != sent_at)
}
