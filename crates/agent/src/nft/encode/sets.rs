//! Sets, maps and their elements.

use std::fmt::Display;
use std::net::IpAddr;

use rhumb_netpol::{Family, Protocol};

use super::{Encoder, INET, message, rules};
use crate::netlink::{CREATE, Messages, Request, Writer};
use crate::nft::elements::{Element, Kind, PacketType, SetType};
use crate::nft::expressions::{Field, Fields, Verdict};
use crate::nft::names::{ChainName, SetName};
use crate::nft::rules::family;

/// Attributes of sets.
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
    /// Within the description.
    pub(super) const SIZE: u16 = 1;
    pub(super) const FIELDS: u16 = 2;
    /// Each of the fields, and its only attribute.
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

    /// The first that is no longer in a range.
    pub(super) const INTERVAL_END: u32 = 1;
}

/// What nft keeps with sets and elements: types, each with a length of 4 and a number in the order of this machine.
mod kept {
    pub(super) const KEY_ORDER: u8 = 0;
    pub(super) const DATA_ORDER: u8 = 1;
    pub(super) const MERGED: u8 = 2;
    pub(super) const ELEMENT_FLAGS: u8 = 1;

    pub(super) const NO_ORDER: u32 = 0;
    pub(super) const ORDER_OF_MACHINE: u32 = 1;
    pub(super) const GREATEST_FIRST: u32 = 2;
    /// A range that has no end.
    pub(super) const OPEN: u32 = 1;

    pub(super) fn number(bytes: &mut Vec<u8>, kind: u8, number: u32) {
        bytes.extend([kind, 4]);
        bytes.extend(number.to_ne_bytes());
    }
}

/// The name of a set without one, in which the kernel puts a number.
const ANONYMOUS: &str = "__set%d";
/// How many bytes of elements a message has at most, about: an attribute cannot have more than 65,535.
const ELEMENTS_BYTES_MAX: usize = 60_000;
/// How nft counts up kinds of fields in one number.
const KIND_BITS: u32 = 6;

impl Kind {
    /// As nft numbers them.
    fn number(self) -> u32 {
        match self {
            Kind::Family => 2,
            Kind::V4 => 7,
            Kind::V6 => 8,
            Kind::Protocol => 12,
            Kind::Port => 13,
            Kind::Mark => 19,
            Kind::PacketType => 31,
        }
    }

    pub(super) fn bytes(self) -> u32 {
        match self {
            Kind::Family | Kind::Protocol | Kind::PacketType => 1,
            Kind::Port => 2,
            Kind::V4 | Kind::Mark => 4,
            Kind::V6 => 16,
        }
    }

    fn order(self) -> u32 {
        match self {
            Kind::V4 | Kind::V6 | Kind::Port => kept::GREATEST_FIRST,
            Kind::Family | Kind::Protocol | Kind::PacketType | Kind::Mark => kept::ORDER_OF_MACHINE,
        }
    }
}

impl Encoder<'_> {
    pub(super) fn add_set(&mut self, name: SetName, of: &SetType) {
        let table = self.table;
        // The kernel wants an identifier, though the name is enough for us.
        let id = self.next_id();
        self.batch.message(message::NEW_SET, CREATE, |writer| {
            writer.text(set::TABLE, table);
            writer.text(set::NAME, name);
            describe(writer, of, 0);
            writer.number(set::ID, id);
            keep(writer, of, false);
        });
    }

    /// A set of a rule that is to come, with all its elements; by what the rule knows it.
    pub(super) fn add_anonymous(&mut self, fields: Fields, elements: &[Element]) -> Anonymous {
        let key: Vec<Kind> = fields.iter().map(Field::kind).collect();
        let of = SetType {
            is_interval: key.len() > 1,
            ..SetType::of(&key)
        };
        let table = self.table;
        let id = self.next_id();
        self.batch.message(message::NEW_SET, CREATE, |writer| {
            writer.text(set::TABLE, table);
            writer.text(set::NAME, ANONYMOUS);
            let concatenated = if of.is_interval { set::CONCATENATED } else { 0 };
            describe(writer, &of, set::ANONYMOUS | set::CONSTANT | concatenated);
            writer.number(set::ID, id);
            writer.nested(set::DESCRIPTION, |writer| {
                writer.number(set::SIZE, u32::try_from(elements.len()).unwrap_or(u32::MAX));
                if of.is_interval {
                    writer.nested(set::FIELDS, |writer| field_lengths(writer, &of));
                }
            });
            keep(writer, &of, of.is_interval);
        });
        self.elements(
            message::NEW_ELEMENTS,
            CREATE,
            &ANONYMOUS,
            Some(id),
            elements,
        );
        Anonymous(id)
    }

    fn next_id(&mut self) -> u32 {
        self.anonymous += 1;
        self.anonymous
    }

    pub(super) fn delete_set(&mut self, name: SetName) {
        let table = self.table;
        self.batch.message(message::DELETE_SET, 0, |writer| {
            writer.text(set::TABLE, table);
            writer.text(set::NAME, name);
        });
    }

    /// Elements that are deleted without being named are all.
    pub(super) fn flush_set(&mut self, name: SetName) {
        let table = self.table;
        self.batch.message(message::DELETE_ELEMENTS, 0, |writer| {
            writer.text(list::TABLE, table);
            writer.text(list::SET, name);
        });
    }

    /// As many messages as it takes.
    pub(super) fn elements(
        &mut self,
        kind: u8,
        flags: u16,
        name: &impl Display,
        id: Option<u32>,
        elements: &[Element],
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

/// By what a rule knows a set that was made for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Anonymous(u32);

impl Anonymous {
    pub(super) fn name(self, writer: &mut Writer) {
        writer.text(rules::LOOKUP_SET, ANONYMOUS);
        writer.number(rules::LOOKUP_SET_ID, self.0);
    }
}

fn describe(writer: &mut Writer, of: &SetType, more: u32) {
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

/// Each field of a concatenation begins at a multiple of four bytes.
fn padded(bytes: u32) -> u32 {
    bytes.next_multiple_of(4)
}

fn field_lengths(writer: &mut Writer, of: &SetType) {
    for kind in &of.key {
        writer.nested(set::FIELD, |writer| {
            writer.number(set::FIELD_LENGTH, kind.bytes());
        });
    }
}

/// What nft needs to show the set.
fn keep(writer: &mut Writer, of: &SetType, is_merged: bool) {
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

fn write_element(writer: &mut Writer, element: &Element, is_first: bool) {
    match element {
        Element::Range(first, last) => write_range(writer, *first, *last, is_first),
        Element::Goto(address, chain) => write_goto(writer, *address, *chain),
        _ => writer.nested(list::ELEMENT, |writer| {
            let (first, last) = keys(element);
            key(writer, list::KEY, &first);
            if let Some(last) = last {
                key(writer, list::KEY_END, &last);
            }
        }),
    }
}

fn key(writer: &mut Writer, kind: u16, value: &[u8]) {
    writer.nested(kind, |writer| writer.bytes(rules::DATA_VALUE, value));
}

/// The kernel has ranges as places where they begin and end, and there is always one where everything begins.
fn write_range(writer: &mut Writer, first: IpAddr, last: IpAddr, is_first: bool) {
    let mut place = |address: IpAddr, is_end: bool, is_open: bool| {
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
        place(lowest, true, false);
    }
    let end = following(last);
    place(first, false, end.is_none());
    if let Some(end) = end {
        place(end, true, false);
    }
}

fn lowest(of: Family) -> IpAddr {
    match of {
        Family::V4 => IpAddr::V4(0.into()),
        Family::V6 => IpAddr::V6(0.into()),
    }
}

/// None comes after the last.
fn following(address: IpAddr) -> Option<IpAddr> {
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

fn write_goto(writer: &mut Writer, address: IpAddr, chain: ChainName) {
    writer.nested(list::ELEMENT, |writer| {
        key(writer, list::KEY, &octets(address));
        writer.nested(list::DATA, |writer| {
            rules::verdict(writer, Verdict::Goto(chain));
        });
    });
}

/// The key of an element; of a range, both its ends.
fn keys(element: &Element) -> (Vec<u8>, Option<Vec<u8>>) {
    let join = |fields: &[&[u8]]| {
        let mut bytes = Vec::with_capacity(32);
        for field in fields {
            bytes.extend(*field);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    };
    match element {
        Element::Mark(mark) => (mark.to_ne_bytes().to_vec(), None),
        Element::PacketType(PacketType::Broadcast) => (vec![1], None),
        Element::PacketType(PacketType::Multicast) => (vec![2], None),
        Element::Icmp(Family::V4) => (vec![rules::ICMP], None),
        Element::Icmp(Family::V6) => (vec![rules::ICMP6], None),
        Element::Address(address) | Element::Range(address, _) | Element::Goto(address, _) => {
            (octets(*address), None)
        }
        Element::Oneself(address) => {
            let address = octets(*address);
            (join(&[&address, &address]), None)
        }
        Element::Port(address, of, port) => {
            let (address, of) = (octets(*address), protocol(*of));
            (join(&[&address, &[of], &port.to_be_bytes()]), None)
        }
        Element::OfFamily(first, last) => {
            let of = [rules::family_number(family(*first))];
            let key = |address| join(&[&of, &octets(address)]);
            (key(*first), Some(key(*last)))
        }
        Element::OfProtocol(of, first, last) => {
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

/// What a set has in it.
pub(in crate::nft) fn ask_for_elements(table: &str, name: SetName) -> Request {
    Request::all(message::GET_ELEMENTS, INET, |writer| {
        writer.text(list::TABLE, table);
        writer.text(list::SET, name);
    })
}

/// The key of the first element in an answer, if there is one.
pub(in crate::nft) fn first_key(answer: &[u8]) -> Option<&[u8]> {
    let mut all = Messages(answer);
    all.find_map(|message| {
        let elements = message.attributes().within(list::ELEMENTS)?;
        let key = elements.within(list::ELEMENT)?.within(list::KEY)?;
        key.find(rules::DATA_VALUE)
    })
}
