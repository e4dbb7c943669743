//! What is in the table whatever the policies are: the chains that every forwarded packet goes through.
//!
//! What one of the two accepts goes on to the other. Packets that conntrack knows as replies are judged as what they
//! reply to, all others by what they are themselves: so a connection that is no longer allowed ends at once, in both
//! directions, and nothing has to be deleted from conntrack.

use rhumb_netpol::{Direction, Family};

use super::names::{self, DIRECTIONS, FAMILIES};
use super::script::Script;

/// What packets over a bridge can have as an address that is no single pod's: those of the link, which every pod has
/// beside the ones that are known, and those of groups. Policies cannot be asked about them, so none pass where anybody is
/// isolated. By the set that holds them, with its type.
pub(super) const NOBODYS: [(&str, &str, &str); 3] = [
    ("nobodys", "pkt_type", "broadcast, multicast"),
    (
        "nobodys4",
        "ipv4_addr; flags interval",
        "224.0.0.0/4, 255.255.255.255",
    ),
    (
        "nobodys6",
        "ipv6_addr; flags interval",
        "fe80::/10, ff00::/8",
    ),
];

/// Which field of a packet has the address of the pod that is asked about.
fn pod_side(direction: Direction) -> (&'static str, &'static str) {
    match direction {
        Direction::Ingress => ("daddr", "saddr"),
        Direction::Egress => ("saddr", "daddr"),
    }
}

/// All of these chains, for the inside of a table.
///
/// A packet that is under way while the table is replaced is judged by the old chains or by the new ones, whichever are
/// in force when it comes by. It must meet the new ones last: otherwise it could come by those before they are in force,
/// and by the old ones when they are no more. So each table has a greater priority than the one before.
///
/// A group that is new has no rules yet in the eyes of a packet that was under way when it came. What gets through it
/// without a verdict is dropped.
pub(super) fn chains(script: &mut Script, step: u16) {
    for direction in DIRECTIONS {
        let judge = names::judge(direction);
        let priority = 2 * u32::from(step)
            + match direction {
                Direction::Egress => 0,
                Direction::Ingress => 1,
            };
        script.line(format_args!("chain {} {{", names::hook(direction)));
        script.line(format_args!(
            "type filter hook forward priority {priority}; policy accept;"
        ));
        script.line(format_args!("jump {judge}"));
        script.line(format_args!("drop"));
        script.line(format_args!("}}"));
        script.line(format_args!("chain {judge} {{"));
        for rule in rules(direction) {
            script.line(format_args!("{rule}"));
        }
        script.line(format_args!("accept"));
        script.line(format_args!("}}"));
    }
}

fn rules(direction: Direction) -> Vec<String> {
    let (there, back) = pod_side(direction);
    // Neighbours find each other over bridges: from nd-router-solicit to nd-redirect, and who listens to which groups.
    // What has come over a router has another hop limit, and is none of that.
    let mut rules: Vec<String> = [
        "ip6 hoplimit 255 icmpv6 type 133-137 accept",
        "ip6 hoplimit 1 icmpv6 type 130-132 accept",
        "ip6 hoplimit 1 icmpv6 type 143 accept",
    ]
    .map(str::to_owned)
    .into();
    if direction == Direction::Egress {
        let nobodys = ["meta pkttype @nobodys", "ip daddr @nobodys4"];
        let nobodys6 = ["ip6 saddr @nobodys6", "ip6 daddr @nobodys6"];
        let all = nobodys.into_iter().chain(nobodys6);
        rules.extend(all.map(|packet| format!("{packet} drop")));
    }
    rules.push("ct state related meta l4proto { icmp, ipv6-icmp } accept".to_owned());
    if direction == Direction::Egress {
        rules.extend(FAMILIES.iter().flat_map(|family| unknown(*family)));
    }
    let mut each = |rule: &dyn Fn(&str, Family) -> String| {
        rules.extend(FAMILIES.map(|family| rule(names::header(family), family)));
    };
    // A pod reaches itself, also through a service.
    each(&|ip, family| {
        let digit = names::digit(family);
        format!("{ip} saddr . {ip} daddr @self{digit} accept")
    });
    each(&|ip, family| {
        let map = names::Dispatch(direction, family);
        format!("ct direction reply {ip} {back} vmap @{map}")
    });
    rules.push("ct direction reply accept".to_owned());
    for family in FAMILIES {
        let map = names::Dispatch(direction, family);
        rules.push(format!("{} {there} vmap @{map}", names::header(family)));
    }
    rules
}

/// Pods that are not known yet wait, and those that have come to their end are heard no more, replies included. Every
/// packet comes by here once, so the other chain need not ask again.
fn unknown(family: Family) -> [String; 2] {
    let (ip, digit) = (names::header(family), names::digit(family));
    ["saddr", "daddr"]
        .map(|side| format!("{ip} {side} @held{digit} {ip} {side} != @known{digit} drop"))
}
