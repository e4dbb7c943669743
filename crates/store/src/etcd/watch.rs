//! Change streams on etcd: consecutive watches, reopened after failures, that appear as one stream.
//!
//! [`changes`] is the entry point. A task ([`WatchDriver`]) reads the watch and fills a bounded queue; the reader's
//! end is [`EtcdChangeStream`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{WatchResponse, WatchStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::change_assembler::ChangeAssembler;
use super::cluster_client::ClusterClient;
use super::convert::{self, EtcdFailure, EtcdFailureKind, from_etcd, header_revision};
use super::event_queue::{EventQueueReceiver, EventQueueSender, event_queue};
use super::jittered_backoff::JitteredBackoff;
use super::members::EtcdMember;
use super::open_watch::cancellation;
use super::read;
use crate::entries::check_prefix;
use crate::{ChangeStream, ChangeStreamEvent, Error, Result, Revision};

/// If the queue of a reader is full for this long, its watch is closed until the reader continues: otherwise unread
/// data would fill the HTTP/2 window that all streams of the connection share.
const STALL_TIMEOUT: Duration = Duration::from_millis(100);

/// The watch id in the response to a progress request, which belongs to no watch.
const PROGRESS_WATCH_ID: i64 = -1;

/// How often a progress request is repeated: a server that is still catching up does not respond to it.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

pub(super) async fn changes(
    client: &ClusterClient,
    prefix: &str,
    after: Revision,
) -> Result<Box<dyn ChangeStream>> {
    check_prefix(prefix)?;
    let deadline = client.deadline();
    let mut backoff = JitteredBackoff::new(50, 1000);
    let (events, received) = event_queue();
    let (target, targets) = watch::channel(Revision::ZERO);
    let mut follower = WatchDriver {
        cluster: client.clone(),
        prefix: prefix.to_owned(),
        assembler: ChangeAssembler::new(after),
        cluster_id: None,
        events,
        progress_targets: targets,
    };
    let opened = loop {
        match follower.open().await {
            Ok(opened) => break opened,
            Err(EtcdWatchEnd::Terminal(error)) => return Err(error),
            Err(EtcdWatchEnd::Interrupted(reason)) => {
                if !backoff.wait_before(deadline).await {
                    return Err(Error::Unavailable { reason });
                }
            }
        }
    };
    Ok(Box::new(EtcdChangeStream {
        cluster: client.clone(),
        events: received,
        progress_target: target,
        driver: tokio::spawn(follower.run(opened)),
    }))
}

/// The reader's end of a change stream.
#[derive(Debug)]
struct EtcdChangeStream {
    cluster: ClusterClient,
    events: EventQueueReceiver,
    progress_target: watch::Sender<Revision>,
    driver: JoinHandle<()>,
}

impl Drop for EtcdChangeStream {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

#[async_trait]
impl ChangeStream for EtcdChangeStream {
    async fn next(&mut self) -> Result<ChangeStreamEvent> {
        self.events.next().await
    }

    async fn request_progress(&mut self) -> Result<()> {
        if !self.cluster.keeps_progress_in_order() {
            let version = self.cluster.version;
            let version = version.map_or("unknown".to_owned(), |version| version.to_string());
            return Err(Error::Unsupported {
                reason: format!(
                    "etcd {version} may report progress before the changes that belong to it; use \
                     3.4.31, 3.5.13, 3.6 or later"
                ),
            });
        }
        // The member that serves the watch may lag behind: use the linearizable revision of the cluster.
        let current = read::revision(&self.cluster).await?;
        self.progress_target.send_replace(current);
        Ok(())
    }
}

/// Why a watch ended.
pub(super) enum EtcdWatchEnd {
    /// The stream continues with another watch.
    Interrupted(String),
    /// The stream ends with this error.
    Terminal(Error),
}

/// An open watch, and the member that serves it.
pub(super) struct EtcdWatch {
    pub(super) stream: WatchStream,
    pub(super) member: Arc<EtcdMember>,
}

/// The task that reads watches and sends their events to the reader.
pub(super) struct WatchDriver {
    pub(super) cluster: ClusterClient,
    pub(super) prefix: String,
    pub(super) assembler: ChangeAssembler,
    /// The id of the cluster to which the position belongs.
    pub(super) cluster_id: Option<u64>,
    events: EventQueueSender,
    progress_targets: watch::Receiver<Revision>,
}

impl WatchDriver {
    /// Runs until the stream ends with an error; the reader aborts it otherwise.
    async fn run(mut self, mut opened: EtcdWatch) {
        loop {
            let mut waiting = VecDeque::new();
            let ended = self.forward_events(opened, &mut waiting).await;
            // The watch is closed by now, so a slow reader does not delay others.
            self.events.send_all(&mut waiting).await;
            opened = match self.resume(ended).await {
                Ok(opened) => opened,
                Err(error) => return self.events.end(error).await,
            };
        }
    }

    /// Forwards the events of one watch until it ends or the reader stalls; returns `None` if the reader stalled.
    async fn forward_events(
        &mut self,
        opened: EtcdWatch,
        waiting: &mut VecDeque<ChangeStreamEvent>,
    ) -> Option<EtcdWatchEnd> {
        // Keep both halves: dropping either closes the watch.
        let (mut requests, mut messages) = opened.stream.split();
        let mut progress = interval(PROGRESS_INTERVAL);
        progress.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = messages.message() => {
                    let taken = match message {
                        Ok(Some(message)) => self.handle_message(&message, waiting).await,
                        Ok(None) => Err(EtcdWatchEnd::Interrupted("etcd closed the watch".to_owned())),
                        Err(error) => {
                            opened.member.record_failure();
                            Err(EtcdWatchEnd::Interrupted(EtcdFailure::from(error).reason))
                        }
                    };
                    if let Err(ended) = taken {
                        return Some(ended);
                    }
                }
                Ok(()) = self.progress_targets.changed() => {
                    self.assembler.request_progress(*self.progress_targets.borrow_and_update());
                }
                _ = progress.tick(), if self.assembler.is_progress_pending() => {
                    if let Err(error) = requests.request_progress().await {
                        return Some(EtcdWatchEnd::Interrupted(EtcdFailure::from(error).reason));
                    }
                }
            }
            waiting.extend(
                self.assembler
                    .take_progress()
                    .map(ChangeStreamEvent::Progress),
            );
            let sent = timeout(STALL_TIMEOUT, self.events.send_all(waiting)).await;
            if sent.is_err() {
                return None;
            }
        }
    }

    /// Converts one message of the server into events for the reader.
    async fn handle_message(
        &mut self,
        message: &WatchResponse,
        waiting: &mut VecDeque<ChangeStreamEvent>,
    ) -> Result<(), EtcdWatchEnd> {
        if message.canceled() {
            let failure = cancellation(message);
            let requested = self.assembler.position();
            return Err(match failure.kind {
                EtcdFailureKind::Compacted => EtcdWatchEnd::Terminal(Error::Compacted {
                    requested,
                    oldest: from_etcd(message.compact_revision()),
                }),
                _ => EtcdWatchEnd::Interrupted(failure.reason),
            });
        }
        if message.created() {
            return Ok(());
        }
        if message.events().is_empty() {
            if let Ok(revision) = header_revision(message.header())
                && (message.watch_id() != PROGRESS_WATCH_ID
                    || self.cluster.keeps_progress_in_order())
            {
                self.assembler.advance(revision);
            }
            return Ok(());
        }
        if !self.cluster.keeps_deletion_at_compaction() && is_from_history(message) {
            self.check_history().await?;
        }
        let changes: Result<Vec<_>> = message
            .events()
            .iter()
            .filter_map(convert::change)
            .collect();
        // A large message is fragmented, and fragments may split a revision.
        let more_follows = message.0.fragment;
        let sets = self
            .assembler
            .add_message(changes.map_err(EtcdWatchEnd::Terminal)?, more_follows);
        waiting.extend(sets.into_iter().map(ChangeStreamEvent::Changes));
        Ok(())
    }

    /// Opens a new watch where the last one ended, retrying until it succeeds.
    async fn resume(&mut self, ended: Option<EtcdWatchEnd>) -> Result<EtcdWatch> {
        self.assembler.discard_partial();
        let was_lost = ended.is_some();
        match ended {
            Some(EtcdWatchEnd::Terminal(error)) => return Err(error),
            Some(EtcdWatchEnd::Interrupted(reason)) => {
                tracing::warn!(
                    prefix = self.prefix,
                    reason,
                    "etcd watch interrupted; reopening it"
                );
            }
            None => {
                tracing::debug!(
                    prefix = self.prefix,
                    "reader of an etcd watch was stalled; reopening the watch"
                );
            }
        }
        let mut backoff = JitteredBackoff::new(50, 2000);
        loop {
            let opened = self.open().await;
            let prefix = self.prefix.as_str();
            match opened {
                Ok(opened) => {
                    let position = self.assembler.position();
                    if was_lost {
                        tracing::info!(prefix, %position, "etcd watch resumed");
                    }
                    return Ok(opened);
                }
                Err(EtcdWatchEnd::Terminal(error)) => return Err(error),
                Err(EtcdWatchEnd::Interrupted(reason)) => {
                    tracing::debug!(prefix, reason, "failed to reopen an etcd watch; retrying");
                }
            }
            backoff.wait().await;
        }
    }
}

/// Whether the server read the changes from its history. A synced watch sends the changes of one revision at once, with
/// that revision in the header.
fn is_from_history(message: &WatchResponse) -> bool {
    let mut revisions = message
        .events()
        .iter()
        .filter_map(|event| event.kv())
        .map(|kv| from_etcd(kv.mod_revision()));
    let sent_at = header_revision(message.header()).ok();
    revisions.any(|revision| Some(revision) != sent_at)
}
