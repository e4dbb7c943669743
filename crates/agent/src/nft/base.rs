//! What is in the table whatever the policies are: the chains that every forwarded packet goes through.
//!
//! What one of the two accepts goes on to the other. Packets that conntrack knows as replies are judged as what they
//! reply to, all others by what they are themselves: so a connection that is no longer allowed ends at once, in both
//! directions, and nothing has to be deleted from conntrack.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rhumb_netpol::{Direction, Family};

use super::command::{Command, Script};
use super::elements::{Element, Kind, PacketType, SetType};
use super::expressions::{End, Field, Match, Rule, Side, Verdict};
use super::names::{ChainName, DIRECTIONS, FAMILIES, SetName};

/// What packets over a bridge can have as an address that is no single pod's: those of the link, which every pod has
/// beside the ones that are known, and those of groups. Policies cannot be asked about them, so none pass where anybody is
/// isolated. By the set that holds them, with its type.
pub(super) fn nobodys() -> [(SetName, SetType, Vec<Element>); 3] {
    let v4 = |first: [u8; 4], last: [u8; 4]| range(Ipv4Addr::from(first), Ipv4Addr::from(last));
    let v6 = |first: u16, last: u16| {
        let last = u128::from(last) << 112 | (u128::MAX >> 16);
        range(
            Ipv6Addr::from(u128::from(first) << 112),
            Ipv6Addr::from(last),
        )
    };
    [
        (
            SetName::Nobodys(None),
            SetType::of(&[Kind::PacketType]),
            [PacketType::Broadcast, PacketType::Multicast]
                .map(Element::PacketType)
                .into(),
        ),
        (
            SetName::Nobodys(Some(Family::V4)),
            SetType::of_ranges(&[Kind::V4]),
            vec![
                v4([224, 0, 0, 0], [239, 255, 255, 255]),
                v4([255; 4], [255; 4]),
            ],
        ),
        (
            SetName::Nobodys(Some(Family::V6)),
            SetType::of_ranges(&[Kind::V6]),
            vec![v6(0xfe80, 0xfebf), v6(0xff00, 0xffff)],
        ),
    ]
}

fn range(first: impl Into<IpAddr>, last: impl Into<IpAddr>) -> Element {
    Element::Range(first.into(), last.into())
}

/// Which field of a packet has the address of the pod that is asked about, and which one in a reply.
fn pod_side(direction: Direction) -> (Side, Side) {
    match direction {
        Direction::Ingress => (Side::Destination, Side::Source),
        Direction::Egress => (Side::Source, Side::Destination),
    }
}

/// Makes these chains, without rules.
///
/// A packet that is under way while the table is replaced is judged by the old chains or by the new ones, whichever are
/// in force when it comes by. It must meet the new ones last: otherwise it could come by those before they are in force,
/// and by the old ones when they are no more. So each table has a greater priority than the one before.
pub(super) fn add_chains(script: &mut Script, step: u16) {
    for direction in DIRECTIONS {
        let priority = 2 * u32::from(step)
            + match direction {
                Direction::Egress => 0,
                Direction::Ingress => 1,
            };
        script.push(Command::AddHook {
            chain: ChainName::Hook(direction),
            priority,
        });
        script.push(Command::AddChain {
            chain: ChainName::Judge(direction),
            comment: None,
        });
    }
}

/// A group that is new has no rules yet in the eyes of a packet that was under way when it came. What gets through it
/// without a verdict is dropped.
pub(super) fn add_rules(script: &mut Script) {
    for direction in DIRECTIONS {
        let (hook, judge) = (ChainName::Hook(direction), ChainName::Judge(direction));
        for verdict in [Verdict::Jump(judge), Verdict::Drop] {
            script.push(Command::AddRule(hook, verdict.into()));
        }
        for rule in rules(direction) {
            script.push(Command::AddRule(judge, rule));
        }
    }
}

fn rules(direction: Direction) -> Vec<Rule> {
    let (there, back) = pod_side(direction);
    let is_out = direction == Direction::Egress;
    let mut rules = Vec::from(neighbours());
    if is_out {
        rules.extend(not_nobodys());
    }
    let icmp = FAMILIES.map(Element::Icmp).to_vec();
    rules.push(Rule::new(
        [Match::Related, Match::Among(Field::Protocol.into(), icmp)],
        Verdict::Accept,
    ));
    if is_out {
        rules.extend(FAMILIES.into_iter().flat_map(not_unknown));
    }
    // A pod reaches itself, also through a service.
    rules.extend(FAMILIES.map(|family| {
        let ends = [Side::Source, Side::Destination].map(|side| Field::Address(family, side));
        let is_self = Match::In(ends.into(), SetName::Oneself(family));
        Rule::new([is_self], Verdict::Accept)
    }));
    let dispatch = |family, side| {
        let map = SetName::Dispatch(direction, family);
        End::Mapped(Field::Address(family, side), map)
    };
    rules.extend(FAMILIES.map(|family| Rule::new([Match::Reply], dispatch(family, back))));
    rules.push(Rule::new([Match::Reply], Verdict::Accept));
    rules.extend(FAMILIES.map(|family| Rule::new([], dispatch(family, there))));
    rules.push(Verdict::Accept.into());
    rules
}

/// Neighbours find each other over bridges: from nd-router-solicit to nd-redirect, and who listens to which groups.
/// What has come over a router has another hop limit, and is none of that.
fn neighbours() -> [Rule; 3] {
    [(255, 133, 137), (1, 130, 132), (1, 143, 143)].map(|(hops, first, last)| {
        let matches = [Match::HopLimit(hops), Match::Icmp6(first, last)];
        Rule::new(matches, Verdict::Accept)
    })
}

fn not_nobodys() -> [Rule; 4] {
    let v4 = |side| (Field::Address(Family::V4, side), Some(Family::V4));
    let v6 = |side| (Field::Address(Family::V6, side), Some(Family::V6));
    [
        (Field::PacketType, None),
        v4(Side::Destination),
        v6(Side::Source),
        v6(Side::Destination),
    ]
    .map(|(field, of)| {
        let is_nobodys = Match::In(field.into(), SetName::Nobodys(of));
        Rule::new([is_nobodys], Verdict::Drop)
    })
}

/// Pods that are not known yet wait, and those that have come to their end are heard no more, replies included. Every
/// packet comes by here once, so the other chain need not ask again.
fn not_unknown(family: Family) -> [Rule; 2] {
    [Side::Source, Side::Destination].map(|side| {
        let field = Field::Address(family, side);
        let matches = [
            Match::In(field.into(), SetName::Held(family)),
            Match::NotIn(field.into(), SetName::Known(family)),
        ];
        Rule::new(matches, Verdict::Drop)
    })
}
