//! nfnetlink batches: messages that the kernel executes in one transaction.

use super::encode::{NetlinkHeader, NetlinkWriter};
use super::{ACK, NFTABLES};

const BEGIN: u16 = 0x10;
const END: u16 = 0x11;

/// What the kernel does at the end of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchMode {
    /// Commits everything atomically, unless a message was rejected.
    Commit,
    /// Validates all messages and discards them: without an end message the kernel aborts the batch.
    DryRun,
}

/// A transaction. Messages have sequence numbers from 1; the begin message has 0.
#[derive(Debug)]
pub(crate) struct NetlinkBatch {
    writer: NetlinkWriter,
    sequence: u32,
    family: u8,
    /// The offset of the last message.
    last_message_start: usize,
}

impl NetlinkBatch {
    /// A batch for objects of a family.
    pub(crate) fn new(family: u8) -> NetlinkBatch {
        let mut batch = NetlinkBatch {
            writer: NetlinkWriter::default(),
            sequence: 0,
            family,
            last_message_start: 0,
        };
        batch.control_message(BEGIN);
        batch
    }

    fn control_message(&mut self, kind: u16) {
        let header = NetlinkHeader {
            kind,
            flags: 0,
            sequence: self.sequence,
            family: 0,
            resource_id: u16::from(NFTABLES),
        };
        self.writer.message(header, |_| {});
    }

    /// Adds a message; `kind` is an nftables message type.
    pub(crate) fn message(&mut self, kind: u8, flags: u16, body: impl FnOnce(&mut NetlinkWriter)) {
        self.sequence += 1;
        self.last_message_start = self.writer.len();
        let header = NetlinkHeader {
            kind: u16::from(NFTABLES) << 8 | u16::from(kind),
            flags,
            sequence: self.sequence,
            family: self.family,
            resource_id: 0,
        };
        self.writer.message(header, body);
    }

    /// The sequence number of the last message.
    pub(crate) fn count(&self) -> u32 {
        self.sequence
    }

    #[cfg(test)]
    pub(crate) fn last_message(&self) -> &[u8] {
        &self.writer.as_bytes()[self.last_message_start..]
    }

    /// Requests an ACK for the last message; without it, success could not be distinguished from a lost answer.
    pub(super) fn finish(mut self, ending: BatchMode) -> NetlinkWriter {
        self.writer.set_flag(self.last_message_start, ACK);
        if ending == BatchMode::Commit {
            self.sequence += 1;
            self.control_message(END);
        }
        self.writer
    }
}
