//! Random clusters show all that can happen: otherwise agreement about them would mean little.

use std::collections::BTreeMap;

use rhumb_netpol::judge::Grant;
use rhumb_netpol::{Direction, Name, Protocol};
use serde_json::Value;

use crate::answers::{PORTS, PROTOCOLS, all_addresses};
use crate::dice::Dice;
use crate::evaluator::{
    Oracle, Said, addresses, host_addresses, is_host, is_live, list, node_of, text,
};
use crate::generator::{cluster, history};
use crate::script::{Event, Kind, Script, World, kind_of, name_of};

/// How often each thing is to be seen at least.
const LEAST: usize = 25;

const EXPECTED: [&str; 48] = [
    "end: outside",
    "end: not isolated",
    "end: itself",
    "end: own node",
    "end: denied",
    "end: denied by several policies",
    "end: allowed by several rules",
    "allowed: IPv4",
    "allowed: IPv6",
    "allowed: TCP",
    "allowed: UDP",
    "allowed: SCTP",
    "allowed: ingress",
    "allowed: egress",
    "peer: everybody",
    "peer: pods",
    "peer: namespaces",
    "peer: pods of namespaces",
    "peer: block",
    "peer: block with excepts",
    "port: any",
    "port: all of a protocol",
    "port: number",
    "port: range",
    "port: name",
    "pod: without address",
    "pod: without node",
    "pod: of the host network",
    "pod: finished",
    "pod: leaving",
    "pod: of one family",
    "pod: with sidecars",
    "pod: has lost an address to another",
    "pod: has the address of a node",
    "pod: of a namespace that is not known",
    "namespace: in disguise",
    "policy: of a version that is not known",
    "policy: without targets",
    "policy: on several nodes",
    "policy: without policyTypes",
    "policy: about nobody",
    "event: pod removed",
    "event: policy removed",
    "event: namespace removed",
    "event: pod made again",
    "event: pod changed",
    "event: policy changed",
    "event: namespace changed",
];

#[derive(Debug, Default)]
struct Counts(BTreeMap<String, usize>);

impl Counts {
    fn add(&mut self, what: &str) {
        self.add_if(true, what);
    }

    fn add_if(&mut self, holds: bool, what: &str) {
        if holds {
            *self.0.entry(what.to_owned()).or_default() += 1;
        }
    }
}

#[test]
fn random_clusters_show_all_that_can_happen() {
    let mut counts = Counts::default();
    for seed in 0..300 {
        let script = cluster(&mut Dice::new(seed), 5, 4);
        let world = World::of(&script.events);
        let oracle = Oracle::new(&world, &script.knowledge);
        count_objects(&mut counts, &oracle);
        if seed % 6 == 0 {
            count_opinions(&mut counts, &oracle);
            count_events(&mut counts, &history(&mut Dice::new(seed), 60));
        }
    }
    for expected in EXPECTED {
        let count = counts.0.get(expected).copied().unwrap_or_default();
        assert!(
            count >= LEAST,
            "{expected}: only {count} times: {counts:#?}"
        );
    }
}

fn count_opinions(counts: &mut Counts, oracle: &Oracle<'_>) {
    let all = all_addresses(oracle.world);
    for own in &all {
        for other in all.iter().filter(|other| other.is_ipv4() == own.is_ipv4()) {
            for direction in [Direction::Ingress, Direction::Egress] {
                let view = oracle.view(direction, *own, *other);
                for protocol in PROTOCOLS {
                    for port in PORTS {
                        let said = view.at(Some((protocol, port)));
                        count_opinion(counts, oracle.world, &said);
                        if matches!(said, Said::Allowed(_)) {
                            counts.add(if own.is_ipv4() {
                                "allowed: IPv4"
                            } else {
                                "allowed: IPv6"
                            });
                            counts.add(&format!("allowed: {}", name_of_protocol(protocol)));
                        }
                    }
                }
            }
        }
    }
}

fn name_of_protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
        Protocol::Sctp => "SCTP",
    }
}

fn count_opinion(counts: &mut Counts, world: &World, said: &Said) {
    match said {
        Said::NoPod => counts.add("end: outside"),
        Said::NotIsolated => counts.add("end: not isolated"),
        Said::Itself => counts.add("end: itself"),
        Said::OwnNode => counts.add("end: own node"),
        Said::Denied(policies) => {
            counts.add("end: denied");
            counts.add_if(policies.len() > 1, "end: denied by several policies");
        }
        Said::Allowed(grants) => {
            counts.add_if(grants.len() > 1, "end: allowed by several rules");
            for grant in grants {
                count_grant(counts, world, grant);
            }
        }
    }
}

fn count_grant(counts: &mut Counts, world: &World, grant: &Grant) {
    let direction = if grant.rule.contains("ingress") {
        "ingress"
    } else {
        "egress"
    };
    counts.add(&format!("allowed: {direction}"));
    let rule = &world.policies[&grant.policy]["spec"][direction][index_of(&grant.rule)];
    let peer = match &grant.peer {
        None => &Value::Null,
        Some(at) if direction == "ingress" => &rule["from"][index_of(at)],
        Some(at) => &rule["to"][index_of(at)],
    };
    let has = |field: &str| !peer[field].is_null();
    counts.add(match () {
        () if peer.is_null() => "peer: everybody",
        () if has("podSelector") && has("namespaceSelector") => "peer: pods of namespaces",
        () if has("podSelector") => "peer: pods",
        () if has("namespaceSelector") => "peer: namespaces",
        () if list(&peer["ipBlock"]["except"]).is_empty() => "peer: block",
        () => "peer: block with excepts",
    });
    let port = grant.port.as_deref().map(|at| &rule["ports"][index_of(at)]);
    counts.add(match port {
        None => "port: any",
        Some(port) if port["port"].is_null() => "port: all of a protocol",
        Some(port) if port["port"].is_string() => "port: name",
        Some(port) if port["endPort"].is_null() => "port: number",
        Some(_) => "port: range",
    });
}

/// Of `from[1]`.
fn index_of(place: &str) -> usize {
    let inside = place.split(['[', ']']).nth(1).unwrap_or_default();
    inside.parse().expect("a number in brackets")
}

fn count_pod(counts: &mut Counts, oracle: &Oracle<'_>, pod: &Value) {
    let own = addresses(pod);
    let counted = is_live(pod) && !is_host(pod);
    let mut sidecars = list(&pod["spec"]["initContainers"]).iter();
    counts.add_if(own.is_empty(), "pod: without address");
    counts.add_if(node_of(pod).is_empty(), "pod: without node");
    counts.add_if(is_host(pod), "pod: of the host network");
    counts.add_if(!is_live(pod), "pod: finished");
    counts.add_if(
        !pod["metadata"]["deletionTimestamp"].is_null(),
        "pod: leaving",
    );
    counts.add_if(own.len() == 1, "pod: of one family");
    counts.add_if(
        sidecars.any(|one| text(&one["restartPolicy"]) == "Always"),
        "pod: with sidecars",
    );
    counts.add_if(
        counted && oracle.asked_by(pod).len() < own.len(),
        "pod: has lost an address to another",
    );
    let mut others = oracle.world.pods.values();
    let is_nodes = others.any(|other| {
        own.iter()
            .any(|address| host_addresses(other).contains(address))
    });
    counts.add_if(counted && is_nodes, "pod: has the address of a node");
    let namespace = Name::new("", text(&pod["metadata"]["namespace"]));
    counts.add_if(
        !oracle.world.namespaces.contains_key(&namespace),
        "pod: of a namespace that is not known",
    );
}

fn count_objects(counts: &mut Counts, oracle: &Oracle<'_>) {
    for pod in oracle.world.pods.values() {
        count_pod(counts, oracle, pod);
    }
    for (name, policy) in &oracle.world.policies {
        let facts = oracle.facts(name, policy);
        let is_known = oracle.knowledge.versions.contains(&facts.min_version);
        counts.add_if(!is_known, "policy: of a version that is not known");
        counts.add_if(
            facts.nodes.is_empty() && facts.unplaced == 0,
            "policy: without targets",
        );
        counts.add_if(facts.nodes.len() > 1, "policy: on several nodes");
        counts.add_if(
            list(&policy["spec"]["policyTypes"]).is_empty(),
            "policy: without policyTypes",
        );
        counts.add_if(facts.traffic == Some(false), "policy: about nobody");
    }
    for (name, namespace) in &oracle.world.namespaces {
        let said = &namespace["metadata"]["labels"]["kubernetes.io/metadata.name"];
        counts.add_if(
            !said.is_null() && *said != *name.name,
            "namespace: in disguise",
        );
    }
}

fn count_events(counts: &mut Counts, script: &Script) {
    let mut world = World::default();
    for event in &script.events {
        if let Some(what) = what_happens(&world, event) {
            counts.add(what);
        }
        world.apply(event);
    }
}

/// What an event does to an object that is there.
fn what_happens(world: &World, event: &Event) -> Option<&'static str> {
    let (kind, name) = match event {
        Event::Set(object) => (kind_of(object), name_of(object)),
        Event::Remove(kind, name) => (*kind, name.clone()),
    };
    let before = world.get(kind, &name)?;
    match (kind, event) {
        (Kind::Pod, Event::Remove(..)) => Some("event: pod removed"),
        (Kind::Policy, Event::Remove(..)) => Some("event: policy removed"),
        (Kind::Namespace, Event::Remove(..)) => Some("event: namespace removed"),
        (Kind::Pod, Event::Set(after)) if before["metadata"]["uid"] != after["metadata"]["uid"] => {
            Some("event: pod made again")
        }
        (_, Event::Set(after)) if before == after => None,
        (Kind::Pod, Event::Set(_)) => Some("event: pod changed"),
        (Kind::Policy, Event::Set(_)) => Some("event: policy changed"),
        (Kind::Namespace, Event::Set(_)) => Some("event: namespace changed"),
    }
}
