//! The fixed part of the table: the base chains that every forwarded packet passes through, and their rules.
//!
//! There is one base chain per direction; a packet must be accepted by both. Packets that conntrack classifies as
//! replies are evaluated like the original packets of their connection. There is no shortcut for established
//! connections: one that is no longer allowed is blocked immediately in both directions, without deleting conntrack
//! entries.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rhumb_netpol::{Direction, IpFamily};

use super::command::{NftCommand, NftScript};
use super::names::{ChainName, DIRECTIONS, FAMILIES, SetName};
use super::rule_expressions::{
    NftRule, NftVerdict, PacketField, PacketMatch, PacketSide, VerdictStatement,
};
use super::set_elements::{LinkPacketType, NftDataType, NftSetElement, NftSetType};

/// Addresses of bridged packets that do not identify a single pod: link-local (every pod has one besides its known
/// addresses), multicast and broadcast. Policies cannot be evaluated for them, so they are dropped if any pod is
/// isolated. Returns the sets with their types and elements.
pub(super) fn non_pod_addresses() -> [(SetName, NftSetType, Vec<NftSetElement>); 3] {
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
            SetName::NonPodAddresses(None),
            NftSetType::of(&[NftDataType::LinkPacketType]),
            [LinkPacketType::Broadcast, LinkPacketType::Multicast]
                .map(NftSetElement::LinkPacketType)
                .into(),
        ),
        (
            SetName::NonPodAddresses(Some(IpFamily::V4)),
            NftSetType::of_ranges(&[NftDataType::V4]),
            vec![
                v4([224, 0, 0, 0], [239, 255, 255, 255]),
                v4([255; 4], [255; 4]),
            ],
        ),
        (
            SetName::NonPodAddresses(Some(IpFamily::V6)),
            NftSetType::of_ranges(&[NftDataType::V6]),
            vec![v6(0xfe80, 0xfebf), v6(0xff00, 0xffff)],
        ),
    ]
}

fn range(first: impl Into<IpAddr>, last: impl Into<IpAddr>) -> NftSetElement {
    NftSetElement::Range(first.into(), last.into())
}

/// The side of a packet that has the address of the policy's pod, in original and in reply packets.
fn pod_sides(direction: Direction) -> (PacketSide, PacketSide) {
    match direction {
        Direction::Ingress => (PacketSide::Destination, PacketSide::Source),
        Direction::Egress => (PacketSide::Source, PacketSide::Destination),
    }
}

/// Adds the base chains, without rules.
///
/// A packet in flight while the table is replaced passes the old chains or the new ones, depending on which are active
/// when it reaches their priority. The new chains must come last: otherwise the packet could pass them before they are
/// active, and the old ones after they are gone. So each new table has a higher priority than the one before.
pub(super) fn add_chains(script: &mut NftScript, step: u16) {
    for direction in DIRECTIONS {
        let priority = 2 * u32::from(step)
            + match direction {
                Direction::Egress => 0,
                Direction::Ingress => 1,
            };
        script.push(NftCommand::AddBaseChain {
            chain: ChainName::Base(direction),
            priority,
        });
        script.push(NftCommand::AddChain {
            chain: ChainName::Filter(direction),
            comment: None,
        });
    }
}

/// Adds the rules of the base chains. To a packet in flight, the chain of a new group may appear to have no rules yet,
/// so a packet that returns without a verdict is dropped.
pub(super) fn add_rules(script: &mut NftScript) {
    for direction in DIRECTIONS {
        let (hook, judge) = (ChainName::Base(direction), ChainName::Filter(direction));
        for verdict in [NftVerdict::Jump(judge), NftVerdict::Drop] {
            script.push(NftCommand::AddRule(hook, verdict.into()));
        }
        for rule in rules(direction) {
            script.push(NftCommand::AddRule(judge, rule));
        }
    }
}

fn rules(direction: Direction) -> Vec<NftRule> {
    let (there, back) = pod_sides(direction);
    let is_out = direction == Direction::Egress;
    let mut rules = Vec::from(accept_neighbour_discovery());
    if is_out {
        rules.extend(drop_non_pod_addresses());
    }
    let icmp = FAMILIES.map(NftSetElement::Icmp).to_vec();
    rules.push(NftRule::new(
        [
            PacketMatch::Related,
            PacketMatch::InAnonymousSet(PacketField::Protocol.into(), icmp),
        ],
        NftVerdict::Accept,
    ));
    if is_out {
        rules.extend(FAMILIES.into_iter().flat_map(drop_unknown_pods));
    }
    // A pod may always reach itself, also through a service.
    rules.extend(FAMILIES.map(|family| {
        let ends = [PacketSide::Source, PacketSide::Destination]
            .map(|side| PacketField::Address(family, side));
        let is_self = PacketMatch::InSet(ends.into(), SetName::SelfPairs(family));
        NftRule::new([is_self], NftVerdict::Accept)
    }));
    let dispatch = |family, side| {
        let map = SetName::Dispatch(direction, family);
        VerdictStatement::VerdictMap(PacketField::Address(family, side), map)
    };
    rules.extend(FAMILIES.map(|family| NftRule::new([PacketMatch::Reply], dispatch(family, back))));
    rules.push(NftRule::new([PacketMatch::Reply], NftVerdict::Accept));
    rules.extend(FAMILIES.map(|family| NftRule::new([], dispatch(family, there))));
    rules.push(NftVerdict::Accept.into());
    rules
}

/// Accepts IPv6 neighbour discovery (nd-router-solicit to nd-redirect) and multicast listener messages over bridges.
/// Packets that were routed have a different hop limit and do not match.
fn accept_neighbour_discovery() -> [NftRule; 3] {
    [(255, 133, 137), (1, 130, 132), (1, 143, 143)].map(|(hops, first, last)| {
        let matches = [PacketMatch::HopLimit(hops), PacketMatch::Icmp6(first, last)];
        NftRule::new(matches, NftVerdict::Accept)
    })
}

fn drop_non_pod_addresses() -> [NftRule; 4] {
    let v4 = |side| (PacketField::Address(IpFamily::V4, side), Some(IpFamily::V4));
    let v6 = |side| (PacketField::Address(IpFamily::V6, side), Some(IpFamily::V6));
    [
        (PacketField::LinkPacketType, None),
        v4(PacketSide::Destination),
        v6(PacketSide::Source),
        v6(PacketSide::Destination),
    ]
    .map(|(field, of)| {
        let is_non_pod = PacketMatch::InSet(field.into(), SetName::NonPodAddresses(of));
        NftRule::new([is_non_pod], NftVerdict::Drop)
    })
}

/// Drops packets, including replies, of addresses in the pod CIDRs that belong to no known pod. Only needed in one of
/// the base chains, since every packet passes both.
fn drop_unknown_pods(family: IpFamily) -> [NftRule; 2] {
    [PacketSide::Source, PacketSide::Destination].map(|side| {
        let field = PacketField::Address(family, side);
        let matches = [
            PacketMatch::InSet(field.into(), SetName::PodCidrs(family)),
            PacketMatch::NotInSet(field.into(), SetName::KnownPods(family)),
        ];
        NftRule::new(matches, NftVerdict::Drop)
    })
}
