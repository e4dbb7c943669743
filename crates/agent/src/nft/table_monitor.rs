//! Monitors nftables notifications for changes that other processes make to the agent's table (like `nft monitor`).

use std::io;

use tokio::io::unix::AsyncFd;

use super::encode::{NFTABLES_MULTICAST_GROUP, NftNotification, classify_event};
use crate::netlink::{NetlinkMessage, NetlinkMessages, NetlinkSocket, ReceiveOutcome};

/// Datagrams read before yielding to other tasks.
const DATAGRAMS_PER_READ: usize = 256;
/// Limit of such reads in a row, in case another process never stops changing tables.
const DRAIN_READS_MAX: usize = 256;

/// What the monitor has noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForeignTableChange {
    /// Another process has changed the table.
    Changed,
    /// Notifications were lost because the receive buffer overflowed; the table may have changed.
    EventsLost,
}

/// Opens a socket that receives notifications of all nftables transactions in this network namespace.
pub(super) fn listen() -> io::Result<NetlinkSocket> {
    NetlinkSocket::listen(NFTABLES_MULTICAST_GROUP)
}

/// Waits for changes of one table by other processes.
#[derive(Debug)]
pub(super) struct TableMonitor {
    socket: AsyncFd<NetlinkSocket>,
    tracker: TableEventTracker,
}

impl TableMonitor {
    /// `own` is the port id of the socket over which this process changes the table.
    #[expect(
        deprecated,
        reason = "the replacement is unsafe: the caller must guarantee that the descriptor stays open, which the socket does"
    )]
    pub(super) fn new(socket: NetlinkSocket, table: &str, own: u32) -> io::Result<TableMonitor> {
        Ok(TableMonitor {
            socket: AsyncFd::new(socket)?,
            tracker: TableEventTracker {
                table: table.to_owned(),
                own_port: own,
                has_open_foreign_transaction: false,
                pending_change: None,
            },
        })
    }

    /// Waits for a change. Cancel safe.
    pub(super) async fn next_change(&mut self) -> ForeignTableChange {
        loop {
            if let Some(change) = self.tracker.pending_change.take() {
                return change;
            }
            let Ok(mut ready) = self.socket.readable_mut().await else {
                return std::future::pending().await;
            };
            match self.tracker.read(ready.get_inner_mut()) {
                true => ready.clear_ready(),
                false => tokio::task::yield_now().await,
            }
        }
    }

    /// Processes all queued notifications. Called after the table was replaced, which makes earlier changes irrelevant.
    pub(super) fn drain(&mut self) {
        for _ in 0..DRAIN_READS_MAX {
            if self.tracker.read(self.socket.get_mut()) {
                return;
            }
        }
    }
}

/// Interprets the stream of notifications.
#[derive(Debug)]
struct TableEventTracker {
    table: String,
    own_port: u32,
    /// A transaction of another process that touches the table is not finished yet.
    has_open_foreign_transaction: bool,
    pending_change: Option<ForeignTableChange>,
}

impl TableEventTracker {
    /// Returns whether all queued notifications have been read.
    fn read(&mut self, socket: &mut NetlinkSocket) -> bool {
        for _ in 0..DATAGRAMS_PER_READ {
            match socket.receive() {
                Ok(ReceiveOutcome::Datagram(length)) => {
                    NetlinkMessages(socket.datagram(length))
                        .for_each(|message| self.on_message(&message));
                }
                Ok(ReceiveOutcome::Overrun) => self.on_events_lost(),
                // If the socket fails, there are no more notifications; periodic inspections still find changes.
                Ok(ReceiveOutcome::Nothing) | Err(_) => return true,
            }
        }
        false
    }

    /// The notifications of a transaction are contiguous and end with `TransactionDone`.
    fn on_message(&mut self, message: &NetlinkMessage<'_>) {
        let is_own = message.port == self.own_port;
        match (classify_event(message, &self.table), is_own) {
            // This process replaces the table, so earlier changes are irrelevant. Lost events may have been later ones.
            (NftNotification::Deleted, true) => {
                self.pending_change = self
                    .pending_change
                    .filter(|change| *change == ForeignTableChange::EventsLost);
            }
            (NftNotification::Deleted | NftNotification::Changed, false) => {
                self.has_open_foreign_transaction = true;
            }
            (NftNotification::TransactionDone, _) if self.has_open_foreign_transaction => {
                self.has_open_foreign_transaction = false;
                self.pending_change = Some(ForeignTableChange::Changed);
            }
            (NftNotification::Changed, true)
            | (NftNotification::TransactionDone | NftNotification::Unrelated, _) => {}
        }
    }

    /// The end of a transaction may be among the lost events, so an open one counts as done.
    fn on_events_lost(&mut self) {
        let is_touched = std::mem::take(&mut self.has_open_foreign_transaction);
        self.pending_change = match is_touched {
            true => Some(ForeignTableChange::Changed),
            false => self.pending_change.or(Some(ForeignTableChange::EventsLost)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{CREATE, NetlinkBatch};

    const OWN: u32 = 7;
    const OTHER: u32 = 8;
    const INET: u8 = 1;
    const IP: u8 = 2;
    const DELETED: u8 = 2;
    const NEW_RULE: u8 = 6;
    const DONE: u8 = 15;

    /// A notification about a table.
    fn message(port: u32, kind: u8, family: u8, table: &str) -> Vec<u8> {
        let mut batch = NetlinkBatch::new(family);
        batch.message(kind, CREATE, |writer| writer.text(1, table));
        let mut bytes = batch.last_message().to_vec();
        bytes[12..16].copy_from_slice(&port.to_ne_bytes());
        bytes
    }

    fn track(change: &[Vec<u8>]) -> TableEventTracker {
        let mut event_tracker = TableEventTracker {
            table: "rhumb".to_owned(),
            own_port: OWN,
            has_open_foreign_transaction: false,
            pending_change: None,
        };
        for message in change {
            NetlinkMessages(message).for_each(|message| event_tracker.on_message(&message));
        }
        event_tracker
    }

    #[test]
    fn foreign_table_changes_are_reported_at_the_end_of_their_batch() {
        let about = |port, kind| message(port, kind, INET, "rhumb");
        let done = |port| message(port, DONE, 0, "");
        for (messages, change) in [
            (vec![about(OTHER, NEW_RULE)], None),
            (
                vec![about(OTHER, NEW_RULE), done(OTHER)],
                Some(ForeignTableChange::Changed),
            ),
            (
                vec![about(OTHER, DELETED), done(OTHER)],
                Some(ForeignTableChange::Changed),
            ),
            (vec![about(OWN, NEW_RULE), done(OWN)], None),
            (vec![about(OWN, DELETED), done(OWN)], None),
            (
                vec![message(OTHER, NEW_RULE, IP, "rhumb"), done(OTHER)],
                None,
            ),
            (
                vec![message(OTHER, NEW_RULE, INET, "rhum"), done(OTHER)],
                None,
            ),
            (
                vec![message(OTHER, NEW_RULE, INET, "rhumb2"), done(OTHER)],
                None,
            ),
            // The table is replaced by this process after the change, or before it.
            (
                vec![
                    about(OTHER, NEW_RULE),
                    done(OTHER),
                    about(OWN, DELETED),
                    done(OWN),
                ],
                None,
            ),
            (
                vec![
                    about(OWN, DELETED),
                    done(OWN),
                    about(OTHER, NEW_RULE),
                    done(OTHER),
                ],
                Some(ForeignTableChange::Changed),
            ),
        ] {
            assert_eq!(track(&messages).pending_change, change, "{messages:?}");
        }
    }

    #[test]
    fn lost_events_stay_pending_until_taken() {
        let about = |port, kind| message(port, kind, INET, "rhumb");
        let mut quiet = track(&[about(OWN, DELETED)]);
        quiet.on_events_lost();
        assert_eq!(quiet.pending_change, Some(ForeignTableChange::EventsLost));
        NetlinkMessages(&about(OWN, DELETED)).for_each(|message| quiet.on_message(&message));
        assert_eq!(quiet.pending_change, Some(ForeignTableChange::EventsLost));
        let mut touched = track(&[about(OTHER, NEW_RULE)]);
        touched.on_events_lost();
        assert_eq!(touched.pending_change, Some(ForeignTableChange::Changed));
        touched.on_events_lost();
        assert_eq!(touched.pending_change, Some(ForeignTableChange::Changed));
        // A certain change takes precedence over lost events.
        let mut later = track(&[]);
        later.on_events_lost();
        NetlinkMessages(&about(OTHER, NEW_RULE)).for_each(|message| later.on_message(&message));
        later.on_events_lost();
        assert_eq!(later.pending_change, Some(ForeignTableChange::Changed));
    }
}
