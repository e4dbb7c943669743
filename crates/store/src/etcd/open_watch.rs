//! Opens an etcd watch at the position of a change stream, after checking that the history from there on is complete.

use etcd_client::{
    GetOptions, GetResponse, ResponseHeader, WatchOptions, WatchResponse, WatchStream,
};
use tokio::time::Instant;

use super::cluster_client::await_response;
use super::convert::{EtcdFailure, EtcdFailureKind, header_revision, to_etcd};
use super::members::EtcdMember;
use super::read;
use super::watch::{EtcdWatch, EtcdWatchEnd, WatchDriver};
use crate::{Error, Revision};

impl WatchDriver {
    /// Opens a watch at the current position.
    pub(super) async fn open(&mut self) -> Result<EtcdWatch, EtcdWatchEnd> {
        let chosen = self.cluster.next_member(self.cluster.deadline());
        let (member, deadline) =
            chosen.map_err(|failure| EtcdWatchEnd::Interrupted(failure.reason))?;
        let mut created = self.create_watch(&member, deadline).await;
        if created.as_ref().is_err_and(|failure| {
            matches!(
                failure.kind,
                EtcdFailureKind::Denied | EtcdFailureKind::StaleToken
            )
        }) {
            // etcd also reports an expired token as missing permission.
            created = match member.renew_tokens(deadline).await {
                Ok(()) => self.create_watch(&member, deadline).await,
                Err(failure) => Err(failure),
            };
        }
        match created {
            Ok(stream) => {
                self.check_history().await?;
                Ok(EtcdWatch { stream, member })
            }
            Err(failure) => {
                if matches!(
                    failure.kind,
                    EtcdFailureKind::NotSent | EtcdFailureKind::Ambiguous
                ) {
                    member.record_failure();
                }
                Err(self.watch_end(failure).await)
            }
        }
    }

    /// Creates a watch. It starts at the position, although that revision has been delivered: then the server rejects
    /// it exactly when the history after the position is incomplete. If it started at the next revision, older
    /// servers would accept it even after a compaction to that revision, which may have removed a deletion
    /// (etcd#19179).
    async fn create_watch(
        &self,
        member: &EtcdMember,
        deadline: Instant,
    ) -> Result<WatchStream, EtcdFailure> {
        let options = WatchOptions::new()
            .with_prefix()
            .with_start_revision(to_etcd(self.start_revision()))
            .with_progress_notify()
            // Otherwise a long history arrives as one message of unlimited size.
            .with_fragment();
        let mut watch = member.watch(deadline).await?;
        let mut stream =
            await_response(deadline, watch.watch(self.prefix.as_str(), Some(options))).await?;
        let first = await_response(deadline, stream.message()).await?;
        match first {
            Some(message) if message.canceled() => Err(cancellation(&message)),
            Some(message) if message.created() => Ok(stream),
            _ => Err(EtcdFailure::ambiguous("etcd did not confirm the watch")),
        }
    }

    /// Checks that the cluster is still the same, and that its history after the position is complete.
    pub(super) async fn check_history(&mut self) -> Result<(), EtcdWatchEnd> {
        let options = GetOptions::new()
            .with_keys_only()
            .with_revision(to_etcd(self.start_revision()));
        match self.cluster.read(self.readable_key(), options).await {
            Ok(response) => {
                self.check_cluster(&response)?;
                self.assembler.confirm_position();
                Ok(())
            }
            // A stream may begin in the future, but the history must not go back.
            Err(failure)
                if failure.kind == EtcdFailureKind::FutureRevision
                    && !self.assembler.is_position_confirmed() =>
            {
                Ok(())
            }
            Err(failure) => Err(self.watch_end(failure).await),
        }
    }

    /// Checks the cluster id. A cluster restored from a backup has another id, and other contents at the same revision.
    fn check_cluster(&mut self, response: &GetResponse) -> Result<(), EtcdWatchEnd> {
        let Some(found) = response.header().map(ResponseHeader::cluster_id) else {
            return Ok(());
        };
        if *self.cluster_id.get_or_insert(found) == found {
            return Ok(());
        }
        let current = header_revision(response.header());
        Err(EtcdWatchEnd::Terminal(Error::Compacted {
            requested: self.assembler.position(),
            oldest: current.unwrap_or_default(),
        }))
    }

    async fn watch_end(&self, failure: EtcdFailure) -> EtcdWatchEnd {
        match failure.kind {
            EtcdFailureKind::Compacted | EtcdFailureKind::FutureRevision => {
                let position = self.assembler.position();
                EtcdWatchEnd::Terminal(read::revision_error(&self.cluster, position, failure).await)
            }
            EtcdFailureKind::Denied | EtcdFailureKind::Refused => {
                EtcdWatchEnd::Terminal(failure.into_error())
            }
            _ => EtcdWatchEnd::Interrupted(failure.reason),
        }
    }

    /// A key that every user who can watch the prefix can read.
    fn readable_key(&self) -> &[u8] {
        if self.prefix.is_empty() {
            b"\0"
        } else {
            self.prefix.as_bytes()
        }
    }

    /// The revision to watch or read at. An etcd store begins empty at revision one, so revision zero is equivalent;
    /// etcd gives zero another meaning.
    fn start_revision(&self) -> Revision {
        self.assembler.position().max(Revision::new(1))
    }
}

/// Why the server cancelled a watch.
pub(super) fn cancellation(message: &WatchResponse) -> EtcdFailure {
    let reason = message.cancel_reason().to_owned();
    if message.compact_revision() > 0 {
        EtcdFailure {
            kind: EtcdFailureKind::Compacted,
            reason,
        }
    } else if reason.contains("permission denied") || reason.contains("auth") {
        EtcdFailure::denied(reason)
    } else {
        EtcdFailure::ambiguous(format!("etcd cancelled the watch: {reason}"))
    }
}
