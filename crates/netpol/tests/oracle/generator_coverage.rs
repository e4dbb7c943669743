//! Checks that random clusters cover all cases; otherwise the differential tests would prove little.

use std::collections::BTreeMap;

use rhumb_netpol::verdict::AllowingRule;
use rhumb_netpol::{Direction, NamespacedName, Protocol};
use serde_json::Value;

use crate::compare_verdicts::{PORTS, PROTOCOLS, all_addresses};
use crate::event_script::{
    EventScript, ObjectEvent, ObjectStore, ScriptObjectKind, kind_of, name_of,
};
use crate::generator::{random_cluster, random_history};
use crate::reference_evaluator::{
    ReferenceEvaluator, ReferenceVerdict, addresses, host_addresses, is_host, is_live, list,
    node_of, text,
};
use rhumb_seeded_rng::SeededRng;

/// The minimum number of occurrences of each case.
const MIN_OCCURRENCES: usize = 25;

const EXPECTED_CASES: [&str; 48] = [
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

/// Occurrences by case.
#[derive(Debug, Default)]
struct CaseCounts(BTreeMap<String, usize>);

impl CaseCounts {
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
fn random_clusters_cover_all_cases() {
    let mut counts = CaseCounts::default();
    for seed in 0..300 {
        let script = random_cluster(&mut SeededRng::new(seed), 5, 4);
        let store = ObjectStore::of(&script.events);
        let oracle = ReferenceEvaluator::new(&store, &script.capabilities);
        count_objects(&mut counts, &oracle);
        if seed % 6 == 0 {
            count_verdicts(&mut counts, &oracle);
            count_events(&mut counts, &random_history(&mut SeededRng::new(seed), 60));
        }
    }
    for expected in EXPECTED_CASES {
        let count = counts.0.get(expected).copied().unwrap_or_default();
        assert!(
            count >= MIN_OCCURRENCES,
            "{expected}: only {count} times: {counts:#?}"
        );
    }
}

fn count_verdicts(counts: &mut CaseCounts, oracle: &ReferenceEvaluator<'_>) {
    let all = all_addresses(oracle.objects);
    for own in &all {
        for other in all.iter().filter(|other| other.is_ipv4() == own.is_ipv4()) {
            for direction in [Direction::Ingress, Direction::Egress] {
                let view = oracle.view(direction, *own, *other);
                for protocol in PROTOCOLS {
                    for port in PORTS {
                        let expected = view.verdict_for_port(Some((protocol, port)));
                        count_verdict(counts, oracle.objects, &expected);
                        if matches!(expected, ReferenceVerdict::Allowed(_)) {
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

fn count_verdict(counts: &mut CaseCounts, store: &ObjectStore, expected: &ReferenceVerdict) {
    match expected {
        ReferenceVerdict::NoPod => counts.add("end: outside"),
        ReferenceVerdict::NotIsolated => counts.add("end: not isolated"),
        ReferenceVerdict::Itself => counts.add("end: itself"),
        ReferenceVerdict::OwnNode => counts.add("end: own node"),
        ReferenceVerdict::Denied(policies) => {
            counts.add("end: denied");
            counts.add_if(policies.len() > 1, "end: denied by several policies");
        }
        ReferenceVerdict::Allowed(grants) => {
            counts.add_if(grants.len() > 1, "end: allowed by several rules");
            for grant in grants {
                count_grant(counts, store, grant);
            }
        }
    }
}

fn count_grant(counts: &mut CaseCounts, store: &ObjectStore, grant: &AllowingRule) {
    let direction = if grant.rule.contains("ingress") {
        "ingress"
    } else {
        "egress"
    };
    counts.add(&format!("allowed: {direction}"));
    let rule = &store.policies[&grant.policy]["spec"][direction][index_of(&grant.rule)];
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

/// The index in `from[1]`.
fn index_of(field_path: &str) -> usize {
    let inside = field_path.split(['[', ']']).nth(1).unwrap_or_default();
    inside.parse().expect("number in brackets")
}

fn count_pod(counts: &mut CaseCounts, oracle: &ReferenceEvaluator<'_>, pod: &Value) {
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
        counted && oracle.query_addresses(pod).len() < own.len(),
        "pod: has lost an address to another",
    );
    let mut others = oracle.objects.pods.values();
    let is_nodes = others.any(|other| {
        own.iter()
            .any(|address| host_addresses(other).contains(address))
    });
    counts.add_if(counted && is_nodes, "pod: has the address of a node");
    let namespace = NamespacedName::new("", text(&pod["metadata"]["namespace"]));
    counts.add_if(
        !oracle.objects.namespaces.contains_key(&namespace),
        "pod: of a namespace that is not known",
    );
}

fn count_objects(counts: &mut CaseCounts, oracle: &ReferenceEvaluator<'_>) {
    for pod in oracle.objects.pods.values() {
        count_pod(counts, oracle, pod);
    }
    for (name, policy) in &oracle.objects.policies {
        let facts = oracle.expected_summary(name, policy);
        let is_known = oracle.capabilities.versions.contains(&facts.min_version);
        counts.add_if(!is_known, "policy: of a version that is not known");
        counts.add_if(
            facts.pods_per_node.is_empty() && facts.unscheduled_pods == 0,
            "policy: without targets",
        );
        counts.add_if(facts.pods_per_node.len() > 1, "policy: on several nodes");
        counts.add_if(
            list(&policy["spec"]["policyTypes"]).is_empty(),
            "policy: without policyTypes",
        );
        counts.add_if(
            facts.has_matching_peers == Some(false),
            "policy: about nobody",
        );
    }
    for (name, namespace) in &oracle.objects.namespaces {
        let expected = &namespace["metadata"]["labels"]["kubernetes.io/metadata.name"];
        counts.add_if(
            !expected.is_null() && *expected != *name.name,
            "namespace: in disguise",
        );
    }
}

fn count_events(counts: &mut CaseCounts, script: &EventScript) {
    let mut store = ObjectStore::default();
    for event in &script.events {
        if let Some(what) = classify_event(&store, event) {
            counts.add(what);
        }
        store.apply(event);
    }
}

/// The case of an event on an existing object.
fn classify_event(store: &ObjectStore, event: &ObjectEvent) -> Option<&'static str> {
    let (kind, name) = match event {
        ObjectEvent::Set(object) => (kind_of(object), name_of(object)),
        ObjectEvent::Remove(kind, name) => (*kind, name.clone()),
    };
    let before = store.get(kind, &name)?;
    match (kind, event) {
        (ScriptObjectKind::Pod, ObjectEvent::Remove(..)) => Some("event: pod removed"),
        (ScriptObjectKind::Policy, ObjectEvent::Remove(..)) => Some("event: policy removed"),
        (ScriptObjectKind::Namespace, ObjectEvent::Remove(..)) => Some("event: namespace removed"),
        (ScriptObjectKind::Pod, ObjectEvent::Set(after))
            if before["metadata"]["uid"] != after["metadata"]["uid"] =>
        {
            Some("event: pod made again")
        }
        (_, ObjectEvent::Set(after)) if before == after => None,
        (ScriptObjectKind::Pod, ObjectEvent::Set(_)) => Some("event: pod changed"),
        (ScriptObjectKind::Policy, ObjectEvent::Set(_)) => Some("event: policy changed"),
        (ScriptObjectKind::Namespace, ObjectEvent::Set(_)) => Some("event: namespace changed"),
    }
}
