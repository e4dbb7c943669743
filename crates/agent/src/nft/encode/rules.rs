//! Encodes rules as nftables expressions, which load packet fields into registers and compare them.

use rhumb_netpol::IpFamily;

use super::NftBatchEncoder;
use super::sets::{self, AnonymousSetRef, octets};
use crate::netlink::NetlinkWriter;
use crate::nft::names::{ChainName, SetName};
use crate::nft::policy_rule_matches::family;
use crate::nft::rule_expressions::{
    ConcatenatedFields, NftRule, NftVerdict, PacketField, PacketMatch, PacketSide, VerdictStatement,
};

/// Attributes of rules.
pub(super) const TABLE: u16 = 1;
pub(super) const CHAIN: u16 = 2;
const EXPRESSIONS: u16 = 4;
const EXPRESSION: u16 = 1;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;

/// Attributes of data: comparison values and verdicts.
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

/// The verdict register, and the first of the data registers, which have four bytes each.
const VERDICT: u32 = 0;
const FIRST: u32 = 8;

/// Payload bases: the header from which an offset counts.
const NETWORK: u32 = 1;
const TRANSPORT: u32 = 2;

pub(super) const ICMP: u8 = 1;
pub(super) const ICMP6: u8 = 58;

/// Keys of the `meta` expression.
#[derive(Debug, Clone, Copy)]
enum MetaKey {
    Family = 15,
    Protocol = 16,
    LinkPacketType = 19,
}

/// Keys of the `ct` expression.
#[derive(Debug, Clone, Copy)]
enum ConntrackKey {
    State = 0,
    Direction = 1,
}

const RELATED: u32 = 4;
const REPLY: u8 = 1;

/// Operators of the `cmp` expression.
#[derive(Debug, Clone, Copy)]
enum CmpOperator {
    Equal = 0,
    NotEqual = 1,
    AtMost = 3,
    AtLeast = 5,
}

pub(super) fn family_number(of: IpFamily) -> u8 {
    match of {
        IpFamily::V4 => 2,
        IpFamily::V6 => 10,
    }
}

impl NftBatchEncoder<'_> {
    /// Adds the anonymous sets of the rule, then the rule.
    pub(super) fn add_rule(&mut self, chain: ChainName, rule: &NftRule) {
        let sets: Vec<Option<AnonymousSetRef>> = rule
            .matches
            .iter()
            .map(|condition| match condition {
                PacketMatch::InAnonymousSet(fields, elements) => {
                    Some(self.add_anonymous(*fields, elements))
                }
                _ => None,
            })
            .collect();
        self.rule(chain, |writer| {
            writer.nested(EXPRESSIONS, |writer| {
                let mut expressions = RuleExpressionEncoder {
                    writer,
                    family: None,
                };
                for (condition, set) in rule.matches.iter().zip(sets) {
                    expressions.condition(condition, set);
                }
                expressions.end(rule.verdict);
            });
        });
    }
}

/// Writes the expressions of one rule.
struct RuleExpressionEncoder<'a> {
    writer: &'a mut NetlinkWriter,
    /// The family that the rule has already matched; the offsets of fields depend on it.
    family: Option<IpFamily>,
}

impl RuleExpressionEncoder<'_> {
    fn condition(&mut self, condition: &PacketMatch, set: Option<AnonymousSetRef>) {
        match condition {
            PacketMatch::Family(family) => self.require_family(*family),
            PacketMatch::Protocol(of) => self.require_protocol(sets::protocol(*of)),
            PacketMatch::Address(side, first, last) => {
                self.load(PacketField::Address(family(*first), *side), FIRST);
                self.between(&octets(*first), &octets(*last));
            }
            PacketMatch::Port(side, first, last) => {
                self.load(PacketField::Port(*side), FIRST);
                self.between(&first.to_be_bytes(), &last.to_be_bytes());
            }
            PacketMatch::HopLimit(limit) => {
                self.require_family(IpFamily::V6);
                self.payload(NETWORK, 7, 1, FIRST);
                self.compare(CmpOperator::Equal, &[*limit]);
            }
            PacketMatch::Icmp6(first, last) => {
                self.require_protocol(ICMP6);
                self.payload(TRANSPORT, 0, 1, FIRST);
                self.between(&[*first], &[*last]);
            }
            PacketMatch::Reply => {
                self.conntrack(ConntrackKey::Direction);
                self.compare(CmpOperator::Equal, &[REPLY]);
            }
            PacketMatch::Related => {
                self.conntrack(ConntrackKey::State);
                self.mask(RELATED);
                self.compare(CmpOperator::NotEqual, &0_u32.to_ne_bytes());
            }
            PacketMatch::InSet(fields, name) => self.look_up(*fields, *name, 0),
            PacketMatch::NotInSet(fields, name) => self.look_up(*fields, *name, LOOKUP_INVERTED),
            PacketMatch::InAnonymousSet(fields, _) => {
                self.load_all(*fields);
                self.expression("lookup", |writer| {
                    set.into_iter().for_each(|set| set.write_reference(writer));
                    writer.number(LOOKUP_SOURCE, FIRST);
                });
            }
        }
    }

    fn end(&mut self, end: VerdictStatement) {
        match end {
            VerdictStatement::VerdictMap(field, map) => {
                self.load(field, FIRST);
                self.expression("lookup", |writer| {
                    writer.text(LOOKUP_SET, map);
                    writer.number(LOOKUP_SOURCE, FIRST);
                    writer.number(LOOKUP_TARGET, VERDICT);
                });
            }
            VerdictStatement::Immediate(of) => self.expression("immediate", |writer| {
                writer.number(1, VERDICT);
                writer.nested(2, |writer| verdict(writer, of));
            }),
        }
    }

    fn look_up(&mut self, fields: ConcatenatedFields, set: SetName, flags: u32) {
        self.load_all(fields);
        self.expression("lookup", |writer| {
            writer.text(LOOKUP_SET, set);
            writer.number(LOOKUP_SOURCE, FIRST);
            if flags != 0 {
                writer.number(LOOKUP_FLAGS, flags);
            }
        });
    }

    /// Loads the fields into consecutive registers.
    fn load_all(&mut self, fields: ConcatenatedFields) {
        // Matches that a field requires use the first register, so they must come before all loads.
        for field in fields.iter() {
            self.prepare(field);
        }
        let mut register = FIRST;
        for field in fields.iter() {
            self.load(field, register);
            register += field.kind().bytes().div_ceil(4);
        }
    }

    fn prepare(&mut self, field: PacketField) {
        if let PacketField::Address(family, _) = field {
            self.assume_family(family);
        }
    }

    fn load(&mut self, field: PacketField, register: u32) {
        self.prepare(field);
        match field {
            PacketField::LinkPacketType => self.meta(MetaKey::LinkPacketType, register),
            PacketField::Family => self.meta(MetaKey::Family, register),
            PacketField::Protocol => self.meta(MetaKey::Protocol, register),
            PacketField::Address(IpFamily::V4, PacketSide::Source) => {
                self.payload(NETWORK, 12, 4, register);
            }
            PacketField::Address(IpFamily::V4, PacketSide::Destination) => {
                self.payload(NETWORK, 16, 4, register);
            }
            PacketField::Address(IpFamily::V6, PacketSide::Source) => {
                self.payload(NETWORK, 8, 16, register);
            }
            PacketField::Address(IpFamily::V6, PacketSide::Destination) => {
                self.payload(NETWORK, 24, 16, register);
            }
            PacketField::Port(PacketSide::Source) => self.payload(TRANSPORT, 0, 2, register),
            PacketField::Port(PacketSide::Destination) => self.payload(TRANSPORT, 2, 2, register),
        }
    }

    /// Matches the family unless the rule already has.
    fn assume_family(&mut self, family: IpFamily) {
        if self.family != Some(family) {
            self.require_family(family);
        }
    }

    fn require_family(&mut self, family: IpFamily) {
        self.meta(MetaKey::Family, FIRST);
        self.compare(CmpOperator::Equal, &[family_number(family)]);
        self.family = Some(family);
    }

    fn require_protocol(&mut self, number: u8) {
        self.meta(MetaKey::Protocol, FIRST);
        self.compare(CmpOperator::Equal, &[number]);
    }

    fn between(&mut self, first: &[u8], last: &[u8]) {
        if first == last {
            return self.compare(CmpOperator::Equal, first);
        }
        self.compare(CmpOperator::AtLeast, first);
        self.compare(CmpOperator::AtMost, last);
    }

    fn compare(&mut self, how: CmpOperator, with: &[u8]) {
        self.expression("cmp", |writer| {
            writer.number(1, FIRST);
            writer.number(2, how as u32);
            writer.nested(3, |writer| writer.bytes(DATA_VALUE, with));
        });
    }

    fn meta(&mut self, key: MetaKey, register: u32) {
        self.expression("meta", |writer| {
            writer.number(1, register);
            writer.number(2, key as u32);
        });
    }

    fn conntrack(&mut self, key: ConntrackKey) {
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

    /// Clears all other bits of the register.
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

    fn expression(&mut self, name: &str, body: impl FnOnce(&mut NetlinkWriter)) {
        self.writer.nested(EXPRESSION, |writer| {
            writer.text(EXPRESSION_NAME, name);
            writer.nested(EXPRESSION_DATA, body);
        });
    }
}

pub(super) fn verdict(writer: &mut NetlinkWriter, of: NftVerdict) {
    let (code, chain) = match of {
        NftVerdict::Drop => (0, None),
        NftVerdict::Accept => (1, None),
        NftVerdict::Jump(chain) => (-3_i32, Some(chain)),
        NftVerdict::Goto(chain) => (-4, Some(chain)),
    };
    writer.nested(DATA_VERDICT, |writer| {
        writer.number(VERDICT_CODE, code.cast_unsigned());
        if let Some(chain) = chain {
            writer.text(VERDICT_CHAIN, chain);
        }
    });
}
