//! A minimal nfnetlink client (RFC 3549; libmnl and libnftnl in C): messages, attributes, batches and sockets,
//! independent of what the messages mean.

mod batch;
mod decode;
mod encode;
mod socket;

pub(crate) use batch::{BatchMode, NetlinkBatch};
pub(crate) use decode::{NetlinkMessage, NetlinkMessages};
pub(crate) use encode::NetlinkWriter;
pub(crate) use socket::{BatchResponse, NetlinkGetRequest, NetlinkSocket, ReceiveOutcome};

/// NFNL_SUBSYS_NFTABLES: the netfilter subsystem, in the upper byte of a message type.
pub(crate) const NFTABLES: u8 = 10;

/// Flags of requests (NLM_F_*).
pub(crate) const CREATE: u16 = 0x400;
pub(crate) const APPEND: u16 = 0x800;
const REQUEST: u16 = 0x1;
const ACK: u16 = 0x4;
const DUMP: u16 = 0x300;

/// `struct nlmsghdr`: length, type, flags, sequence number and port id of the sender.
const HEADER_BYTES: usize = 16;
/// `struct nfgenmsg`, with which every netfilter message begins: family, version and resource id.
const SUBHEADER_BYTES: usize = 4;
/// `struct nlattr`: length and type.
const ATTRIBUTE_BYTES: usize = 4;
const ALIGNMENT: usize = 4;
/// NLA_F_NESTED: the value consists of attributes.
const NESTED: u16 = 0x8000;

fn aligned(length: usize) -> usize {
    length.next_multiple_of(ALIGNMENT)
}
