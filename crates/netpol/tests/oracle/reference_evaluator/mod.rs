//! The reference evaluator: a naive implementation of NetworkPolicy semantics on JSON objects.

mod blocks;
mod peers;
mod pods;
mod ports;
mod selectors;
mod summaries;
mod versions;

use std::collections::BTreeMap;
use std::net::IpAddr;

use rhumb_netpol::verdict::AllowingRule;
use rhumb_netpol::{Direction, NamespacedName, PluginCapabilities, Protocol};
use serde_json::Value;

use crate::event_script::ObjectStore;

pub(crate) use blocks::ReferenceCidr;
pub(crate) use pods::{addresses, host_addresses, is_host, is_live, node_of};
pub(crate) use selectors::selector_matches;
pub(crate) use summaries::ExpectedPolicySummary;

/// Protocol and destination port; `None` for protocols without ports.
pub(crate) type ProtocolAndPort = Option<(Protocol, u16)>;

/// The verdict of one direction, without the free-text reasons.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ReferenceVerdict {
    NoPod,
    NotIsolated,
    Itself,
    OwnNode,
    Allowed(Vec<AllowingRule>),
    /// The denying policies, with the number of their rules.
    Denied(Vec<(NamespacedName, usize)>),
}

impl ReferenceVerdict {
    pub(crate) fn is_allowed(&self) -> bool {
        !matches!(self, ReferenceVerdict::Denied(_))
    }
}

/// Evaluates policies by scanning all objects.
#[derive(Debug)]
pub(crate) struct ReferenceEvaluator<'w> {
    pub(crate) objects: &'w ObjectStore,
    pub(crate) capabilities: &'w PluginCapabilities,
    owners: BTreeMap<IpAddr, &'w Value>,
}

/// The evaluation of one direction for all ports.
#[derive(Debug)]
pub(crate) enum PortIndependentVerdict<'w> {
    Decided(ReferenceVerdict),
    Isolated {
        policies: Vec<(NamespacedName, Vec<ReferenceRuleMatch<'w>>)>,
        destination: Option<&'w Value>,
        sctp: bool,
    },
}

/// A rule, and whether one of its peers matches the other endpoint.
#[derive(Debug)]
pub(crate) struct ReferenceRuleMatch<'w> {
    field_path: String,
    peer_matches: bool,
    peer: Option<String>,
    ports: &'w [Value],
}

impl<'w> ReferenceEvaluator<'w> {
    pub(crate) fn new(
        objects: &'w ObjectStore,
        capabilities: &'w PluginCapabilities,
    ) -> ReferenceEvaluator<'w> {
        ReferenceEvaluator {
            owners: pods::owners(objects),
            objects,
            capabilities,
        }
    }

    /// The pod that owns an address, unless it is in the host network.
    pub(crate) fn owner(&self, address: IpAddr) -> Option<&'w Value> {
        self.owners.get(&address).copied()
    }

    /// The addresses at which a pod is queried: those that it owns, or those of its node.
    pub(crate) fn query_addresses(&self, pod: &Value) -> Vec<IpAddr> {
        let mut all = addresses(pod);
        all.retain(|address| {
            let is_own = |owner: &&Value| std::ptr::eq(*owner, pod);
            is_live(pod) && (is_host(pod) || self.owner(*address).as_ref().is_some_and(is_own))
        });
        all
    }

    /// Evaluates a connection between `own` and `other` for the endpoint `own`.
    pub(crate) fn view(
        &self,
        direction: Direction,
        own: IpAddr,
        other: IpAddr,
    ) -> PortIndependentVerdict<'w> {
        let Some(pod) = self.owner(own) else {
            return PortIndependentVerdict::Decided(ReferenceVerdict::NoPod);
        };
        let other_pod = self.owner(other);
        if other_pod.is_some_and(|other| std::ptr::eq(other, pod)) {
            return PortIndependentVerdict::Decided(ReferenceVerdict::Itself);
        }
        if other_pod.is_none() && pods::is_node_of(self.objects, pod, other) {
            return PortIndependentVerdict::Decided(ReferenceVerdict::OwnNode);
        }
        let about = self.isolating_policies(pod, direction);
        if about.is_empty() {
            return PortIndependentVerdict::Decided(ReferenceVerdict::NotIsolated);
        }
        let views = about.into_iter().map(|(name, policy)| {
            let rules = peers::rules(&policy["spec"], direction).iter().enumerate();
            let views =
                rules.map(|(index, rule)| self.rule_view(name, direction, index, rule, other));
            (name.clone(), views.collect())
        });
        PortIndependentVerdict::Isolated {
            policies: views.collect(),
            destination: match direction {
                Direction::Ingress => Some(pod),
                Direction::Egress => other_pod,
            },
            sctp: self.capabilities.sctp,
        }
    }

    /// The policies that isolate a pod, ordered by name.
    fn isolating_policies(
        &self,
        pod: &Value,
        direction: Direction,
    ) -> Vec<(&'w NamespacedName, &'w Value)> {
        let policies = self.objects.policies.iter();
        let about = policies.filter(|(name, policy)| {
            name.namespace == pod["metadata"]["namespace"]
                && peers::isolates(&policy["spec"], direction)
                && self.selects(policy, pod)
        });
        about.collect()
    }

    /// Whether a policy is supported and selects the pod.
    pub(crate) fn selects(&self, policy: &Value, pod: &Value) -> bool {
        versions::is_supported(&policy["spec"], self.capabilities) && self.targets(policy, pod)
    }

    /// Whether a policy, supported or not, selects the pod.
    pub(crate) fn targets(&self, policy: &Value, pod: &Value) -> bool {
        let selector = &policy["spec"]["podSelector"];
        policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
            && is_live(pod)
            && !is_host(pod)
            && (selector.is_null() || selector_matches(selector, &pod["metadata"]["labels"]))
    }

    fn rule_view(
        &self,
        policy: &NamespacedName,
        direction: Direction,
        index: usize,
        rule: &'w Value,
        other: IpAddr,
    ) -> ReferenceRuleMatch<'w> {
        let (rules, field) = match direction {
            Direction::Ingress => ("ingress", "from"),
            Direction::Egress => ("egress", "to"),
        };
        let peers = list(&rule[field]);
        let found = peers
            .iter()
            .position(|peer| self.is_peer(&policy.namespace, peer, other));
        ReferenceRuleMatch {
            field_path: format!("spec.{rules}[{index}]"),
            peer_matches: peers.is_empty() || found.is_some(),
            peer: found.map(|index| format!("{field}[{index}]")),
            ports: list(&rule["ports"]),
        }
    }
}

impl PortIndependentVerdict<'_> {
    pub(crate) fn verdict_for_port(&self, port: ProtocolAndPort) -> ReferenceVerdict {
        let (policies, destination, sctp) = match self {
            PortIndependentVerdict::Decided(expected) => return expected.clone(),
            PortIndependentVerdict::Isolated {
                policies,
                destination,
                sctp,
            } => (policies, *destination, *sctp),
        };
        let mut grants = Vec::new();
        for (policy, rules) in policies {
            for rule in rules.iter().filter(|rule| rule.peer_matches) {
                let found = rule
                    .ports
                    .iter()
                    .position(|written| ports::port_matches(written, port, destination, sctp));
                if rule.ports.is_empty() || found.is_some() {
                    grants.push(AllowingRule {
                        policy: policy.clone(),
                        rule: rule.field_path.clone(),
                        peer: rule.peer.clone(),
                        port: found.map(|index| format!("ports[{index}]")),
                    });
                }
            }
        }
        if grants.is_empty() {
            let denials = policies
                .iter()
                .map(|(policy, rules)| (policy.clone(), rules.len()));
            return ReferenceVerdict::Denied(denials.collect());
        }
        ReferenceVerdict::Allowed(grants)
    }
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
