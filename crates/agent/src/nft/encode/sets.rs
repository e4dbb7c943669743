//! Encodes sets, maps and their elements.

use std::fmt::Display;
use std::net::IpAddr;

use rhumb_netpol::{IpFamily, Protocol};

use super::{INET, NftBatchEncoder, message, rules};
use crate::netlink::{CREATE, NetlinkGetRequest, NetlinkMessages, NetlinkWriter};
use crate::nft::names::{ChainName, SetName};
use crate::nft::policy_rule_matches::family;
use crate::nft::rule_expressions::{ConcatenatedFields, NftVerdict, PacketField};
use crate::nft::set_elements::{LinkPacketType, NftDataType, NftSetElement, NftSetType};

/// Attributes and flags of sets.
mod set {
    pub(super) const TABLE: u16 = 1;
    pub(super) const NAME: u16 = 2;
    pub(super) const FLAGS: u16 = 3;
    pub(super) const KEY_TYPE: u16 = 4;
    pub(super) const KEY_LENGTH: u16 = 5;
    pub(super) const DATA_TYPE: u16 = 6;
    pub(super) const DATA_LENGTH: u16 = 7;
    pub(super) const DESCRIPTION: u16 = 9;
    pub(super) const ID: u16 = 10;
    pub(super) const USERDATA: u16 = 13;
    /// Nested in DESCRIPTION.
    pub(super) const SIZE: u16 = 1;
    pub(super) const FIELDS: u16 = 2;
    /// Each field, and its only attribute.
    pub(super) const FIELD: u16 = 1;
    pub(super) const FIELD_LENGTH: u16 = 1;

    pub(super) const ANONYMOUS: u32 = 0x1;
    pub(super) const CONSTANT: u32 = 0x2;
    pub(super) const INTERVAL: u32 = 0x4;
    pub(super) const MAP: u32 = 0x8;
    pub(super) const CONCATENATED: u32 = 0x80;

    pub(super) const VERDICTS: u32 = 0xffff_ff00;
}

/// Attributes of lists of elements, and of elements.
mod list {
    pub(super) const TABLE: u16 = 1;
    pub(super) const SET: u16 = 2;
    pub(super) const ELEMENTS: u16 = 3;
    pub(super) const ID: u16 = 4;
    pub(super) const ELEMENT: u16 = 1;

    pub(super) const KEY: u16 = 1;
    pub(super) const DATA: u16 = 2;
    pub(super) const FLAGS: u16 = 3;
    pub(super) const USERDATA: u16 = 6;
    pub(super) const KEY_END: u16 = 10;

    /// The element is the exclusive end of a range.
    pub(super) const INTERVAL_END: u32 = 1;
}

/// User data that nft stores with sets and elements: type, length 4, and a u32 in native byte order.
mod kept {
    pub(super) const KEY_ORDER: u8 = 0;
    pub(super) const DATA_ORDER: u8 = 1;
    pub(super) const MERGED: u8 = 2;
    pub(super) const ELEMENT_FLAGS: u8 = 1;

    pub(super) const NO_ORDER: u32 = 0;
    pub(super) const ORDER_OF_MACHINE: u32 = 1;
    pub(super) const GREATEST_FIRST: u32 = 2;
    /// A range without an end element.
    pub(super) const OPEN: u32 = 1;

    pub(super) fn number(bytes: &mut Vec<u8>, kind: u8, number: u32) {
        bytes.extend([kind, 4]);
        bytes.extend(number.to_ne_bytes());
    }
}

/// Name template of anonymous sets; the kernel inserts a number.
const ANONYMOUS: &str = "__set%d";
/// Approximate limit of element bytes per message: an attribute has at most 65,535 bytes.
const ELEMENTS_BYTES_MAX: usize = 60_000;
/// Bits per field in nft's type number of a concatenation.
const KIND_BITS: u32 = 6;

impl NftDataType {
    /// nft's number of the type.
    fn number(self) -> u32 {
        match self {
            NftDataType::Family => 2,
            NftDataType::V4 => 7,
            NftDataType::V6 => 8,
            NftDataType::Protocol => 12,
            NftDataType::Port => 13,
            NftDataType::Mark => 19,
            NftDataType::LinkPacketType => 31,
        }
    }

    pub(super) fn bytes(self) -> u32 {
        match self {
            NftDataType::Family | NftDataType::Protocol | NftDataType::LinkPacketType => 1,
            NftDataType::Port => 2,
            NftDataType::V4 | NftDataType::Mark => 4,
            NftDataType::V6 => 16,
        }
    }

    fn order(self) -> u32 {
        match self {
            NftDataType::V4 | NftDataType::V6 | NftDataType::Port => kept::GREATEST_FIRST,
            NftDataType::Family
            | NftDataType::Protocol
            | NftDataType::LinkPacketType
            | NftDataType::Mark => kept::ORDER_OF_MACHINE,
        }
    }
}

impl NftBatchEncoder<'_> {
    pub(super) fn add_set(&mut self, name: SetName, of: &NftSetType) {
        let table = self.table;
        // The kernel requires an id, though commands refer to the set by name.
        let id = self.next_id();
        self.batch.message(message::NEW_SET, CREATE, |writer| {
            writer.text(set::TABLE, table);
            writer.text(set::NAME, name);
            write_set_attributes(writer, of, 0);
            writer.number(set::ID, id);
            write_userdata(writer, of, false);
        });
    }

    /// Adds an anonymous set with its elements for a rule that follows.
    pub(super) fn add_anonymous(
        &mut self,
        fields: ConcatenatedFields,
        elements: &[NftSetElement],
    ) -> AnonymousSetRef {
        let key: Vec<NftDataType> = fields.iter().map(PacketField::kind).collect();
        let of = NftSetType {
            is_interval: key.len() > 1,
            ..NftSetType::of(&key)
        };
        let table = self.table;
        let id = self.next_id();
        self.batch.message(message::NEW_SET, CREATE, |writer| {
            writer.text(set::TABLE, table);
            writer.text(set::NAME, ANONYMOUS);
            let concatenated = if of.is_interval { set::CONCATENATED } else { 0 };
            write_set_attributes(writer, &of, set::ANONYMOUS | set::CONSTANT | concatenated);
            writer.number(set::ID, id);
            writer.nested(set::DESCRIPTION, |writer| {
                writer.number(set::SIZE, u32::try_from(elements.len()).unwrap_or(u32::MAX));
                if of.is_interval {
                    writer.nested(set::FIELDS, |writer| field_lengths(writer, &of));
                }
            });
            write_userdata(writer, &of, of.is_interval);
        });
        self.elements(
            message::NEW_ELEMENTS,
            CREATE,
            &ANONYMOUS,
            Some(id),
            elements,
        );
        AnonymousSetRef(id)
    }

    fn next_id(&mut self) -> u32 {
        self.last_set_id += 1;
        self.last_set_id
    }

    pub(super) fn delete_set(&mut self, name: SetName) {
        let table = self.table;
        self.batch.message(message::DELETE_SET, 0, |writer| {
            writer.text(set::TABLE, table);
            writer.text(set::NAME, name);
        });
    }

    /// A delete message without elements deletes all elements.
    pub(super) fn flush_set(&mut self, name: SetName) {
        let table = self.table;
        self.batch.message(message::DELETE_ELEMENTS, 0, |writer| {
            writer.text(list::TABLE, table);
            writer.text(list::SET, name);
        });
    }

    /// Adds or deletes elements, in as many messages as needed.
    pub(super) fn elements(
        &mut self,
        kind: u8,
        flags: u16,
        name: &impl Display,
        id: Option<u32>,
        elements: &[NftSetElement],
    ) {
        let table = self.table;
        let mut rest = elements.iter().peekable();
        let mut is_first = true;
        while rest.peek().is_some() {
            self.batch.message(kind, flags, |writer| {
                writer.text(list::TABLE, table);
                writer.text(list::SET, name);
                if let Some(id) = id {
                    writer.number(list::ID, id);
                }
                writer.nested(list::ELEMENTS, |writer| {
                    let start = writer.len();
                    while writer.len() - start < ELEMENTS_BYTES_MAX
                        && let Some(element) = rest.next()
                    {
                        write_element(writer, element, is_first);
                        is_first = false;
                    }
                });
            });
        }
    }
}

/// Refers to an anonymous set of the same batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnonymousSetRef(u32);

impl AnonymousSetRef {
    pub(super) fn write_reference(self, writer: &mut NetlinkWriter) {
        writer.text(rules::LOOKUP_SET, ANONYMOUS);
        writer.number(rules::LOOKUP_SET_ID, self.0);
    }
}

fn write_set_attributes(writer: &mut NetlinkWriter, of: &NftSetType, more: u32) {
    let interval = if of.is_interval { set::INTERVAL } else { 0 };
    let map = if of.is_map { set::MAP } else { 0 };
    writer.number(set::FLAGS, more | interval | map);
    let kinds = of.key.iter();
    let number = kinds.fold(0, |number, kind| number << KIND_BITS | kind.number());
    writer.number(set::KEY_TYPE, number);
    let length = match of.key.as_slice() {
        [one] => one.bytes(),
        several => several.iter().map(|kind| padded(kind.bytes())).sum(),
    };
    writer.number(set::KEY_LENGTH, length);
    if of.is_map {
        writer.number(set::DATA_TYPE, set::VERDICTS);
        writer.number(set::DATA_LENGTH, 0);
    }
}

/// Fields of a concatenation are padded to multiples of four bytes.
fn padded(bytes: u32) -> u32 {
    bytes.next_multiple_of(4)
}

fn field_lengths(writer: &mut NetlinkWriter, of: &NftSetType) {
    for kind in &of.key {
        writer.nested(set::FIELD, |writer| {
            writer.number(set::FIELD_LENGTH, kind.bytes());
        });
    }
}

/// User data that `nft list` needs to display the set.
fn write_userdata(writer: &mut NetlinkWriter, of: &NftSetType, is_merged: bool) {
    writer.value(set::USERDATA, |bytes| {
        let order = match of.key.as_slice() {
            [one] => one.order(),
            _ => kept::NO_ORDER,
        };
        kept::number(bytes, kept::KEY_ORDER, order);
        if of.is_map {
            kept::number(bytes, kept::DATA_ORDER, kept::NO_ORDER);
        }
        if is_merged {
            kept::number(bytes, kept::MERGED, 1);
        }
    });
}

fn write_element(writer: &mut NetlinkWriter, element: &NftSetElement, is_first: bool) {
    match element {
        NftSetElement::Range(first, last) => write_range(writer, *first, *last, is_first),
        NftSetElement::Goto(address, chain) => write_goto(writer, *address, *chain),
        _ => writer.nested(list::ELEMENT, |writer| {
            let (first, last) = keys(element);
            key(writer, list::KEY, &first);
            if let Some(last) = last {
                key(writer, list::KEY_END, &last);
            }
        }),
    }
}

fn key(writer: &mut NetlinkWriter, kind: u16, value: &[u8]) {
    writer.nested(kind, |writer| writer.bytes(rules::DATA_VALUE, value));
}

/// Interval sets are stored as start and end elements, and begin with an end element at the lowest address.
fn write_range(writer: &mut NetlinkWriter, first: IpAddr, last: IpAddr, is_first: bool) {
    let mut boundary = |address: IpAddr, is_end: bool, is_open: bool| {
        writer.nested(list::ELEMENT, |writer| {
            if is_end {
                writer.number(list::FLAGS, list::INTERVAL_END);
            }
            key(writer, list::KEY, &octets(address));
            if is_open {
                writer.value(list::USERDATA, |bytes| {
                    kept::number(bytes, kept::ELEMENT_FLAGS, kept::OPEN);
                });
            }
        });
    };
    let lowest = lowest(family(first));
    if is_first && first != lowest {
        boundary(lowest, true, false);
    }
    let end = next_address(last);
    boundary(first, false, end.is_none());
    if let Some(end) = end {
        boundary(end, true, false);
    }
}

fn lowest(of: IpFamily) -> IpAddr {
    match of {
        IpFamily::V4 => IpAddr::V4(0.into()),
        IpFamily::V6 => IpAddr::V6(0.into()),
    }
}

/// `None` after the highest address.
fn next_address(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => {
            let next = address.to_bits().checked_add(1)?;
            Some(IpAddr::V4(next.into()))
        }
        IpAddr::V6(address) => {
            let next = address.to_bits().checked_add(1)?;
            Some(IpAddr::V6(next.into()))
        }
    }
}

fn write_goto(writer: &mut NetlinkWriter, address: IpAddr, chain: ChainName) {
    writer.nested(list::ELEMENT, |writer| {
        key(writer, list::KEY, &octets(address));
        writer.nested(list::DATA, |writer| {
            rules::verdict(writer, NftVerdict::Goto(chain));
        });
    });
}

/// The key of an element; for a range, its first and last key.
fn keys(element: &NftSetElement) -> (Vec<u8>, Option<Vec<u8>>) {
    let join = |fields: &[&[u8]]| {
        let mut bytes = Vec::with_capacity(32);
        for field in fields {
            bytes.extend(*field);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    };
    match element {
        NftSetElement::Mark(mark) => (mark.to_ne_bytes().to_vec(), None),
        NftSetElement::LinkPacketType(LinkPacketType::Broadcast) => (vec![1], None),
        NftSetElement::LinkPacketType(LinkPacketType::Multicast) => (vec![2], None),
        NftSetElement::Icmp(IpFamily::V4) => (vec![rules::ICMP], None),
        NftSetElement::Icmp(IpFamily::V6) => (vec![rules::ICMP6], None),
        NftSetElement::Address(address)
        | NftSetElement::Range(address, _)
        | NftSetElement::Goto(address, _) => (octets(*address), None),
        NftSetElement::SelfPair(address) => {
            let address = octets(*address);
            (join(&[&address, &address]), None)
        }
        NftSetElement::Port(address, of, port) => {
            let (address, of) = (octets(*address), protocol(*of));
            (join(&[&address, &[of], &port.to_be_bytes()]), None)
        }
        NftSetElement::FamilyRange(first, last) => {
            let of = [rules::family_number(family(*first))];
            let key = |address| join(&[&of, &octets(address)]);
            (key(*first), Some(key(*last)))
        }
        NftSetElement::ProtocolPorts(of, first, last) => {
            let of = [protocol(*of)];
            let key = |port: u16| join(&[&of, &port.to_be_bytes()]);
            (key(*first), Some(key(*last)))
        }
    }
}

pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

pub(super) fn protocol(of: Protocol) -> u8 {
    match of {
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
        Protocol::Sctp => 132,
    }
}

/// A query for the elements of a set.
pub(in crate::nft) fn dump_elements_request(table: &str, name: SetName) -> NetlinkGetRequest {
    NetlinkGetRequest::dump(message::GET_ELEMENTS, INET, |writer| {
        writer.text(list::TABLE, table);
        writer.text(list::SET, name);
    })
}

/// The key of the first element in a response, if there is one.
pub(in crate::nft) fn first_key(answer: &[u8]) -> Option<&[u8]> {
    let mut all = NetlinkMessages(answer);
    all.find_map(|message| {
        let elements = message.attributes().nested(list::ELEMENTS)?;
        let key = elements.nested(list::ELEMENT)?.nested(list::KEY)?;
        key.find(rules::DATA_VALUE)
    })
}
