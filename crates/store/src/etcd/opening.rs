//! Opening a watch where a stream of changes is, if the history from there on is whole.

use etcd_client::{
    GetOptions, GetResponse, ResponseHeader, WatchOptions, WatchResponse, WatchStream,
};
use tokio::time::Instant;

use super::convert::{Failure, Kind, header_revision, to_etcd};
use super::link::answer;
use super::members::Member;
use super::read;
use super::watch::{Ended, Follower, Opened};
use crate::{Error, Revision};

impl Follower {
    /// A watch from the current position.
    pub(super) async fn open(&mut self) -> Result<Opened, Ended> {
        let chosen = self.link.next_member(self.link.deadline());
        let (member, deadline) = chosen.map_err(|failure| Ended::Lost(failure.reason))?;
        let mut created = self.create(&member, deadline).await;
        if created
            .as_ref()
            .is_err_and(|failure| matches!(failure.kind, Kind::Denied | Kind::StaleToken))
        {
            // Servers call it a lack of permission as well when a token is too old.
            created = match member.renew_tokens(deadline).await {
                Ok(()) => self.create(&member, deadline).await,
                Err(failure) => Err(failure),
            };
        }
        match created {
            Ok(stream) => {
                self.check_history().await?;
                Ok(Opened { stream, member })
            }
            Err(failure) => {
                if matches!(failure.kind, Kind::NotSent | Kind::Lost) {
                    member.failed();
                }
                Err(self.over_or_lost(failure).await)
            }
        }
    }

    /// Begins at the position, although that has been passed on: so the server refuses exactly when the
    /// history after the position is no longer whole. From one later, older servers begin also after a
    /// compaction to there, which may have removed a deletion (etcd#19179).
    async fn create(&self, member: &Member, deadline: Instant) -> Result<WatchStream, Failure> {
        let options = WatchOptions::new()
            .with_prefix()
            .with_start_revision(to_etcd(self.known_position()))
            .with_progress_notify()
            // Else a long history comes as one message, however large.
            .with_fragment();
        let mut watch = member.watch(deadline).await?;
        let mut stream = answer(deadline, watch.watch(self.prefix.as_str(), Some(options))).await?;
        let first = answer(deadline, stream.message()).await?;
        match first {
            Some(message) if message.canceled() => Err(cancellation(&message)),
            Some(message) if message.created() => Ok(stream),
            _ => Err(Failure::lost("etcd did not begin the stream")),
        }
    }

    /// Whether the store still is the one that was followed, and its history after the position whole.
    pub(super) async fn check_history(&mut self) -> Result<(), Ended> {
        let options = GetOptions::new()
            .with_keys_only()
            .with_revision(to_etcd(self.known_position()));
        match self.link.read(self.any_key(), options).await {
            Ok(response) => {
                self.check_cluster(&response)?;
                self.feed.set_reached();
                Ok(())
            }
            // It is allowed to begin in the future, but not to come back to an earlier time.
            Err(failure) if failure.kind == Kind::FutureRevision && !self.feed.is_reached() => {
                Ok(())
            }
            Err(failure) => Err(self.over_or_lost(failure).await),
        }
    }

    /// A cluster that was restored from a backup is another: what it has at a revision is something else.
    fn check_cluster(&mut self, response: &GetResponse) -> Result<(), Ended> {
        let Some(found) = response.header().map(ResponseHeader::cluster_id) else {
            return Ok(());
        };
        if *self.cluster_id.get_or_insert(found) == found {
            return Ok(());
        }
        let current = header_revision(response.header());
        Err(Ended::Over(Error::Compacted {
            requested: self.feed.position(),
            oldest: current.unwrap_or_default(),
        }))
    }

    async fn over_or_lost(&self, failure: Failure) -> Ended {
        match failure.kind {
            Kind::Compacted | Kind::FutureRevision => {
                let position = self.feed.position();
                Ended::Over(read::at_revision(&self.link, position, failure).await)
            }
            Kind::Denied | Kind::Refused => Ended::Over(failure.into_error()),
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
pub(super) fn cancellation(message: &WatchResponse) -> Failure {
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
