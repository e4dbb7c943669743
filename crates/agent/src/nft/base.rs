//! What is in the table whatever the policies are: the chains that every forwarded packet goes through.
//!
//! What one of the two accepts goes on to the other. Packets that conntrack knows as replies are judged as what they
//! reply to, all others by what they are themselves: so a connection that is no longer allowed ends at once, in both
//! directions, and nothing has to be deleted from conntrack.

use rhumb_netpol::{Direction, Family};

use super::names::{self, DIRECTIONS, FAMILIES};
use super::script::Script;

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
    let mut rules = vec![
        // Neighbour discovery, which goes over bridges: from nd-router-solicit to nd-redirect.
        "icmpv6 type 133-137 accept".to_owned(),
        "ct state related meta l4proto { icmp, ipv6-icmp } accept".to_owned(),
    ];
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
    if direction == Direction::Egress {
        rules.extend(FAMILIES.iter().flat_map(|family| unknown(*family)));
    }
    for family in FAMILIES {
        let map = names::Dispatch(direction, family);
        rules.push(format!("{} {there} vmap @{map}", names::header(family)));
    }
    rules
}

/// Pods that are not known yet wait. Every packet comes by here once, so the other chain need not ask again.
fn unknown(family: Family) -> [String; 2] {
    let (ip, digit) = (names::header(family), names::digit(family));
    ["saddr", "daddr"]
        .map(|side| format!("{ip} {side} @held{digit} {ip} {side} != @local{digit} drop"))
}
