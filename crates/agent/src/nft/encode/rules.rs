//! Rules, as expressions that put what a packet is like into registers and look at it there.

use rhumb_netpol::Family;

use super::Encoder;
use super::sets::{self, Anonymous, octets};
use crate::netlink::Writer;
use crate::nft::expressions::{End, Field, Fields, Match, Rule, Side, Verdict};
use crate::nft::names::{ChainName, SetName};
use crate::nft::rules::family;

/// Attributes of rules.
pub(super) const TABLE: u16 = 1;
pub(super) const CHAIN: u16 = 2;
const EXPRESSIONS: u16 = 4;
const EXPRESSION: u16 = 1;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;

/// Attributes of what is compared with, or becomes of a packet.
pub(super) const DATA_VALUE: u16 = 1;
const DATA_VERDICT: u16 = 2;
const VERDICT_CODE: u16 = 1;
const VERDICT_CHAIN: u16 = 2;

pub(super) const LOOKUP_SET: u16 = 1;
const LOOKUP_SOURCE: u16 = 2;
const LOOKUP_TARGET: u16 = 3;
pub(super) const LOOKUP_SET_ID: u16 = 4;
const LOOKUP_FLAGS: u16 = 5;
const LOOKUP_INVERTED: u32 = 1;

/// The register of verdicts, and the first of those for values, which have four bytes each.
const VERDICT: u32 = 0;
const FIRST: u32 = 8;

/// Where in a packet something begins.
const NETWORK: u32 = 1;
const TRANSPORT: u32 = 2;

pub(super) const ICMP: u8 = 1;
pub(super) const ICMP6: u8 = 58;

/// What can be looked up that is in no header.
#[derive(Debug, Clone, Copy)]
enum Meta {
    Family = 15,
    Protocol = 16,
    PacketType = 19,
}

#[derive(Debug, Clone, Copy)]
enum Conntrack {
    State = 0,
    Direction = 1,
}

const RELATED: u32 = 4;
const REPLY: u8 = 1;

#[derive(Debug, Clone, Copy)]
enum Comparison {
    Equal = 0,
    NotEqual = 1,
    AtMost = 3,
    AtLeast = 5,
}

pub(super) fn family_number(of: Family) -> u8 {
    match of {
        Family::V4 => 2,
        Family::V6 => 10,
    }
}

impl Encoder<'_> {
    /// Sets that belong to the rule come before it.
    pub(super) fn add_rule(&mut self, chain: ChainName, rule: &Rule) {
        let sets: Vec<Option<Anonymous>> = rule
            .matches
            .iter()
            .map(|condition| match condition {
                Match::Among(fields, elements) => Some(self.add_anonymous(*fields, elements)),
                _ => None,
            })
            .collect();
        self.rule(chain, |writer| {
            writer.nested(EXPRESSIONS, |writer| {
                let mut expressions = Expressions {
                    writer,
                    family: None,
                };
                for (condition, set) in rule.matches.iter().zip(sets) {
                    expressions.condition(condition, set);
                }
                expressions.end(rule.end);
            });
        });
    }
}

/// The expressions of one rule.
struct Expressions<'a> {
    writer: &'a mut Writer,
    /// Of packets that have come so far in the rule: where fields are depends on it.
    family: Option<Family>,
}

impl Expressions<'_> {
    fn condition(&mut self, condition: &Match, set: Option<Anonymous>) {
        match condition {
            Match::Family(family) => self.require_family(*family),
            Match::Protocol(of) => self.require_protocol(sets::protocol(*of)),
            Match::Address(side, first, last) => {
                self.load(Field::Address(family(*first), *side), FIRST);
                self.between(&octets(*first), &octets(*last));
            }
            Match::Port(side, first, last) => {
                self.load(Field::Port(*side), FIRST);
                self.between(&first.to_be_bytes(), &last.to_be_bytes());
            }
            Match::HopLimit(limit) => {
                self.require_family(Family::V6);
                self.payload(NETWORK, 7, 1, FIRST);
                self.compare(Comparison::Equal, &[*limit]);
            }
            Match::Icmp6(first, last) => {
                self.require_protocol(ICMP6);
                self.payload(TRANSPORT, 0, 1, FIRST);
                self.between(&[*first], &[*last]);
            }
            Match::Reply => {
                self.conntrack(Conntrack::Direction);
                self.compare(Comparison::Equal, &[REPLY]);
            }
            Match::Related => {
                self.conntrack(Conntrack::State);
                self.mask(RELATED);
                self.compare(Comparison::NotEqual, &0_u32.to_ne_bytes());
            }
            Match::In(fields, name) => self.look_up(*fields, *name, 0),
            Match::NotIn(fields, name) => self.look_up(*fields, *name, LOOKUP_INVERTED),
            Match::Among(fields, _) => {
                self.load_all(*fields);
                self.expression("lookup", |writer| {
                    set.into_iter().for_each(|set| set.name(writer));
                    writer.number(LOOKUP_SOURCE, FIRST);
                });
            }
        }
    }

    fn end(&mut self, end: End) {
        match end {
            End::Mapped(field, map) => {
                self.load(field, FIRST);
                self.expression("lookup", |writer| {
                    writer.text(LOOKUP_SET, map);
                    writer.number(LOOKUP_SOURCE, FIRST);
                    writer.number(LOOKUP_TARGET, VERDICT);
                });
            }
            End::Always(of) => self.expression("immediate", |writer| {
                writer.number(1, VERDICT);
                writer.nested(2, |writer| verdict(writer, of));
            }),
        }
    }

    fn look_up(&mut self, fields: Fields, set: SetName, flags: u32) {
        self.load_all(fields);
        self.expression("lookup", |writer| {
            writer.text(LOOKUP_SET, set);
            writer.number(LOOKUP_SOURCE, FIRST);
            if flags != 0 {
                writer.number(LOOKUP_FLAGS, flags);
            }
        });
    }

    /// One after the other, each from a register of its own on.
    fn load_all(&mut self, fields: Fields) {
        // What a field needs of a packet must not be looked up between them.
        for field in fields.iter() {
            self.prepare(field);
        }
        let mut register = FIRST;
        for field in fields.iter() {
            self.load(field, register);
            register += field.kind().bytes().div_ceil(4);
        }
    }

    fn prepare(&mut self, field: Field) {
        if let Field::Address(family, _) = field {
            self.assume_family(family);
        }
    }

    fn load(&mut self, field: Field, register: u32) {
        self.prepare(field);
        match field {
            Field::PacketType => self.meta(Meta::PacketType, register),
            Field::Family => self.meta(Meta::Family, register),
            Field::Protocol => self.meta(Meta::Protocol, register),
            Field::Address(Family::V4, Side::Source) => self.payload(NETWORK, 12, 4, register),
            Field::Address(Family::V4, Side::Destination) => {
                self.payload(NETWORK, 16, 4, register);
            }
            Field::Address(Family::V6, Side::Source) => self.payload(NETWORK, 8, 16, register),
            Field::Address(Family::V6, Side::Destination) => {
                self.payload(NETWORK, 24, 16, register);
            }
            Field::Port(Side::Source) => self.payload(TRANSPORT, 0, 2, register),
            Field::Port(Side::Destination) => self.payload(TRANSPORT, 2, 2, register),
        }
    }

    /// Only packets of that family have such a field.
    fn assume_family(&mut self, family: Family) {
        if self.family != Some(family) {
            self.require_family(family);
        }
    }

    fn require_family(&mut self, family: Family) {
        self.meta(Meta::Family, FIRST);
        self.compare(Comparison::Equal, &[family_number(family)]);
        self.family = Some(family);
    }

    fn require_protocol(&mut self, number: u8) {
        self.meta(Meta::Protocol, FIRST);
        self.compare(Comparison::Equal, &[number]);
    }

    fn between(&mut self, first: &[u8], last: &[u8]) {
        if first == last {
            return self.compare(Comparison::Equal, first);
        }
        self.compare(Comparison::AtLeast, first);
        self.compare(Comparison::AtMost, last);
    }

    fn compare(&mut self, how: Comparison, with: &[u8]) {
        self.expression("cmp", |writer| {
            writer.number(1, FIRST);
            writer.number(2, how as u32);
            writer.nested(3, |writer| writer.bytes(DATA_VALUE, with));
        });
    }

    fn meta(&mut self, key: Meta, register: u32) {
        self.expression("meta", |writer| {
            writer.number(1, register);
            writer.number(2, key as u32);
        });
    }

    fn conntrack(&mut self, key: Conntrack) {
        self.expression("ct", |writer| {
            writer.number(1, FIRST);
            writer.number(2, key as u32);
        });
    }

    fn payload(&mut self, base: u32, offset: u32, length: u32, register: u32) {
        self.expression("payload", |writer| {
            writer.number(1, register);
            writer.number(2, base);
            writer.number(3, offset);
            writer.number(4, length);
        });
    }

    /// Leaves these bits of the register.
    fn mask(&mut self, bits: u32) {
        self.expression("bitwise", |writer| {
            writer.number(1, FIRST);
            writer.number(2, FIRST);
            writer.number(3, 4);
            for (kind, value) in [(4, bits), (5, 0)] {
                writer.nested(kind, |writer| {
                    writer.bytes(DATA_VALUE, &value.to_ne_bytes());
                });
            }
        });
    }

    fn expression(&mut self, name: &str, body: impl FnOnce(&mut Writer)) {
        self.writer.nested(EXPRESSION, |writer| {
            writer.text(EXPRESSION_NAME, name);
            writer.nested(EXPRESSION_DATA, body);
        });
    }
}

pub(super) fn verdict(writer: &mut Writer, of: Verdict) {
    let (code, chain) = match of {
        Verdict::Drop => (0, None),
        Verdict::Accept => (1, None),
        Verdict::Jump(chain) => (-3_i32, Some(chain)),
        Verdict::Goto(chain) => (-4, Some(chain)),
    };
    writer.nested(DATA_VERDICT, |writer| {
        writer.number(VERDICT_CODE, code.cast_unsigned());
        if let Some(chain) = chain {
            writer.text(VERDICT_CHAIN, chain);
        }
    });
}
