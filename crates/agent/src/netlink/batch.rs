//! Messages that are carried out together or not at all.

use super::write::{Header, Writer};
use super::{ACK, NFTABLES};

const BEGIN: u16 = 0x10;
const END: u16 = 0x11;

/// What the kernel does after the last message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All takes effect at one moment, if nothing was refused.
    Commit,
    /// It has looked at everything, and forgets it.
    Forget,
}

/// A transaction. Messages are numbered from 1; what it begins with is 0.
#[derive(Debug)]
pub(crate) struct Batch {
    writer: Writer,
    sequence: u32,
    family: u8,
    /// Where the last message begins.
    last: usize,
}

impl Batch {
    /// About objects of a family.
    pub(crate) fn new(family: u8) -> Batch {
        let mut batch = Batch {
            writer: Writer::default(),
            sequence: 0,
            family,
            last: 0,
        };
        batch.edge(BEGIN);
        batch
    }

    fn edge(&mut self, kind: u16) {
        let header = Header {
            kind,
            flags: 0,
            sequence: self.sequence,
            family: 0,
            number: u16::from(NFTABLES),
        };
        self.writer.message(header, |_| {});
    }

    /// The kind is one of nftables.
    pub(crate) fn message(&mut self, kind: u8, flags: u16, body: impl FnOnce(&mut Writer)) {
        self.sequence += 1;
        self.last = self.writer.len();
        let header = Header {
            kind: u16::from(NFTABLES) << 8 | u16::from(kind),
            flags,
            sequence: self.sequence,
            family: self.family,
            number: 0,
        };
        self.writer.message(header, body);
    }

    /// The number of the last message.
    pub(crate) fn count(&self) -> u32 {
        self.sequence
    }

    #[cfg(test)]
    pub(crate) fn last_message(&self) -> &[u8] {
        &self.writer.as_bytes()[self.last..]
    }

    /// The kernel answers the last message also if nothing is wrong: without that, silence could mean anything.
    pub(super) fn finish(mut self, ending: Ending) -> Writer {
        self.writer.set_flag(self.last, ACK);
        if ending == Ending::Commit {
            self.sequence += 1;
            self.edge(END);
        }
        self.writer
    }
}
