//! Speaks to the kernel over netlink, the protocol of its tables of rules. Knows messages, attributes and sockets, and
//! nothing of what they are about.

mod batch;
mod read;
mod socket;
mod write;

pub(crate) use batch::{Batch, Ending};
pub(crate) use read::{Message, Messages};
pub(crate) use socket::{Answer, Received, Request, Socket};
pub(crate) use write::Writer;

/// The part of netfilter that a message is for, in the upper half of its type.
pub(crate) const NFTABLES: u8 = 10;

/// Flags of requests.
pub(crate) const CREATE: u16 = 0x400;
pub(crate) const APPEND: u16 = 0x800;
const REQUEST: u16 = 0x1;
const ACK: u16 = 0x4;
const DUMP: u16 = 0x300;

/// The length, the type, the flags, the sequence number and the sender's port.
const HEADER_BYTES: usize = 16;
/// The family, a version and a number that batches use; every message of netfilter begins with them.
const SUBHEADER_BYTES: usize = 4;
/// The length and the type.
const ATTRIBUTE_BYTES: usize = 4;
const ALIGNMENT: usize = 4;
/// Says that a value consists of attributes.
const NESTED: u16 = 0x8000;

fn aligned(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT)
}
