//! Compares the engine's verdicts and summaries with those of the reference evaluator.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use rhumb_netpol::policy_summary::PolicySummary;
use rhumb_netpol::verdict::{ConnectionEndpoint, ConnectionQuery, DirectionVerdict};
use rhumb_netpol::{Direction, NamespacedName, PolicyEngine, Protocol};

use crate::event_script::ObjectStore;
use crate::reference_evaluator::{
    ExpectedPolicySummary, PortIndependentVerdict, ReferenceEvaluator, ReferenceVerdict, addresses,
    host_addresses,
};

pub(crate) const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

/// The ports in random policies, and adjacent ones.
pub(crate) const PORTS: [u16; 5] = [79, 80, 81, 443, 444];

/// Addresses of no pod, but within some `ipBlock`s.
const EXTERNAL_ADDRESSES: [&str; 4] = ["203.0.113.9", "10.0.0.200", "2001:db8::9", "fd00::200"];

/// All addresses of pods and nodes, and some external ones.
pub(crate) fn all_addresses(store: &ObjectStore) -> BTreeSet<IpAddr> {
    let pods = store.pods.values();
    let mut all: BTreeSet<IpAddr> = pods
        .flat_map(|pod| [addresses(pod), host_addresses(pod)].concat())
        .collect();
    all.extend(
        EXTERNAL_ADDRESSES
            .iter()
            .filter_map(|address| address.parse::<IpAddr>().ok()),
    );
    all
}

/// Compares all address pairs, pods and summaries.
pub(crate) fn compare(
    engine: &PolicyEngine,
    oracle: &ReferenceEvaluator<'_>,
) -> Result<(), String> {
    let all = all_addresses(oracle.objects);
    for from in &all {
        for to in all.iter().filter(|to| to.is_ipv4() == from.is_ipv4()) {
            compare_pair(engine, oracle, *from, *to)?;
        }
    }
    compare_pods(engine, oracle)?;
    compare_summaries(engine, oracle)
}

fn compare_pair(
    engine: &PolicyEngine,
    oracle: &ReferenceEvaluator<'_>,
    from: IpAddr,
    to: IpAddr,
) -> Result<(), String> {
    let egress = oracle.view(Direction::Egress, from, to);
    let ingress = oracle.view(Direction::Ingress, to, from);
    let is_no_pod = |view: &PortIndependentVerdict<'_>| {
        matches!(
            view,
            PortIndependentVerdict::Decided(ReferenceVerdict::NoPod)
        )
    };
    let ports: &[u16] = match is_no_pod(&egress) && is_no_pod(&ingress) {
        true => &PORTS[..1],
        false => &PORTS,
    };
    for protocol in PROTOCOLS {
        for port in ports {
            let query = ConnectionQuery {
                from: ConnectionEndpoint::Address(from),
                to: ConnectionEndpoint::Address(to),
                protocol,
                port: *port,
            };
            let verdict = engine.evaluate(&query);
            let Some([pair]) = verdict.as_ref().map(|verdict| &verdict.pairs[..]) else {
                return Err(format!("{query:?}: {verdict:?}"));
            };
            let asked = Some((protocol, *port));
            compare_direction(
                &query,
                "egress",
                &pair.egress,
                &egress.verdict_for_port(asked),
            )?;
            compare_direction(
                &query,
                "ingress",
                &pair.ingress,
                &ingress.verdict_for_port(asked),
            )?;
        }
    }
    Ok(())
}

fn compare_direction(
    query: &ConnectionQuery,
    end: &str,
    verdict: &DirectionVerdict,
    expected: &ReferenceVerdict,
) -> Result<(), String> {
    let is_same = match (verdict, expected) {
        (DirectionVerdict::NoPod, ReferenceVerdict::NoPod)
        | (DirectionVerdict::NotIsolated, ReferenceVerdict::NotIsolated)
        | (DirectionVerdict::Itself, ReferenceVerdict::Itself)
        | (DirectionVerdict::OwnNode, ReferenceVerdict::OwnNode) => true,
        (DirectionVerdict::Allowed { grants }, ReferenceVerdict::Allowed(wanted)) => {
            grants == wanted
        }
        (DirectionVerdict::Denied { policies }, ReferenceVerdict::Denied(wanted)) => {
            let named = policies
                .iter()
                .map(|denial| (&denial.policy, denial.rules.len()));
            named.eq(wanted.iter().map(|(policy, rules)| (policy, *rules)))
                && policies
                    .iter()
                    .all(|denial| name_rules_in_order(&denial.rules, end))
        }
        _ => false,
    };
    match is_same {
        true => Ok(()),
        false => Err(format!(
            "{query:?}: {end} is {verdict:#?} and should be {expected:#?}"
        )),
    }
}

/// Whether each reason begins with the path of its rule, in order.
fn name_rules_in_order(rules: &[String], end: &str) -> bool {
    let mut numbered = rules.iter().enumerate();
    numbered.all(|(index, rule)| rule.starts_with(&format!("spec.{end}[{index}]: ")))
}

/// Compares queries by pod name.
fn compare_pods(engine: &PolicyEngine, oracle: &ReferenceEvaluator<'_>) -> Result<(), String> {
    for (from, from_pod) in &oracle.objects.pods {
        for (to, to_pod) in &oracle.objects.pods {
            let query = ConnectionQuery {
                from: ConnectionEndpoint::Pod(from.clone()),
                to: ConnectionEndpoint::Pod(to.clone()),
                protocol: Protocol::Tcp,
                port: PORTS[1],
            };
            let pairs = pairs(
                &oracle.query_addresses(from_pod),
                &oracle.query_addresses(to_pod),
            );
            let got = engine.evaluate(&query).map(|verdict| verdict.pairs);
            let got = got.unwrap_or_default();
            let addresses: BTreeSet<_> = got.iter().map(|pair| (pair.from, pair.to)).collect();
            if addresses != pairs || got.len() != pairs.len() {
                return Err(format!("{query:?}: {got:#?} should be about {pairs:?}"));
            }
            for pair in got {
                let asked = Some((Protocol::Tcp, PORTS[1]));
                let egress = oracle.view(Direction::Egress, pair.from, pair.to);
                let ingress = oracle.view(Direction::Ingress, pair.to, pair.from);
                compare_direction(
                    &query,
                    "egress",
                    &pair.egress,
                    &egress.verdict_for_port(asked),
                )?;
                compare_direction(
                    &query,
                    "ingress",
                    &pair.ingress,
                    &ingress.verdict_for_port(asked),
                )?;
            }
        }
    }
    Ok(())
}

fn pairs(from: &[IpAddr], to: &[IpAddr]) -> BTreeSet<(IpAddr, IpAddr)> {
    let all = from
        .iter()
        .flat_map(|from| to.iter().map(move |to| (*from, *to)));
    all.filter(|(from, to)| from.is_ipv4() == to.is_ipv4())
        .collect()
}

fn compare_summaries(engine: &PolicyEngine, oracle: &ReferenceEvaluator<'_>) -> Result<(), String> {
    for (name, policy) in &oracle.objects.policies {
        let summary = engine.summary(name).map(comparable_summary);
        let wanted = oracle.expected_summary(name, policy);
        if summary.as_ref() != Some(&wanted) {
            return Err(format!("{name}: {summary:#?} should be {wanted:#?}"));
        }
    }
    Ok(())
}

fn comparable_summary(summary: PolicySummary) -> ExpectedPolicySummary {
    ExpectedPolicySummary {
        uid: summary.uid,
        generation: summary.generation,
        min_version: summary.min_version,
        pods_per_node: summary.pods_per_node,
        unscheduled_pods: summary.unscheduled_pods,
        has_matching_peers: summary.has_matching_peers,
    }
}

pub(crate) fn summaries(engine: &PolicyEngine) -> BTreeMap<NamespacedName, PolicySummary> {
    let names = engine.policies();
    let summaries = names.filter_map(|name| Some((name.clone(), engine.summary(name)?)));
    summaries.collect()
}
