//! What policies mean, found out the slow way.

mod blocks;
mod peers;
mod pods;
mod ports;
mod selectors;
mod summaries;
mod versions;

use std::collections::BTreeMap;
use std::net::IpAddr;

use rhumb_netpol::judge::Grant;
use rhumb_netpol::{Direction, Knowledge, Name, Protocol};
use serde_json::Value;

use crate::script::World;

pub(crate) use blocks::Block;
pub(crate) use pods::{addresses, host_addresses, is_host, is_live, node_of};
pub(crate) use selectors::picks;
pub(crate) use summaries::Facts;

/// A protocol with the destination's port; `None` is a protocol without ports.
pub(crate) type PortOf = Option<(Protocol, u16)>;

/// What an end says, as far as it is one thing only that can be said.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Said {
    NoPod,
    NotIsolated,
    Itself,
    OwnNode,
    Allowed(Vec<Grant>),
    /// The policies, with the number of their rules.
    Denied(Vec<(Name, usize)>),
}

impl Said {
    pub(crate) fn is_allowed(&self) -> bool {
        !matches!(self, Said::Denied(_))
    }
}

#[derive(Debug)]
pub(crate) struct Oracle<'w> {
    pub(crate) world: &'w World,
    pub(crate) knowledge: &'w Knowledge,
    owners: BTreeMap<IpAddr, &'w Value>,
}

/// What an end says of another, whatever the port.
#[derive(Debug)]
pub(crate) enum View<'w> {
    Clear(Said),
    Isolated {
        policies: Vec<(Name, Vec<RuleView<'w>>)>,
        destination: Option<&'w Value>,
        sctp: bool,
    },
}

/// A rule, and whether the other end is one of its peers.
#[derive(Debug)]
pub(crate) struct RuleView<'w> {
    place: String,
    is_peer: bool,
    peer: Option<String>,
    ports: &'w [Value],
}

impl<'w> Oracle<'w> {
    pub(crate) fn new(world: &'w World, knowledge: &'w Knowledge) -> Oracle<'w> {
        Oracle {
            owners: pods::owners(world),
            world,
            knowledge,
        }
    }

    /// The pod that has an address, if it is one that policies are about.
    pub(crate) fn owner(&self, address: IpAddr) -> Option<&'w Value> {
        self.owners.get(&address).copied()
    }

    /// The addresses of a pod that it is asked by: its own, or those of its node.
    pub(crate) fn asked_by(&self, pod: &Value) -> Vec<IpAddr> {
        let mut all = addresses(pod);
        all.retain(|address| {
            let is_own = |owner: &&Value| std::ptr::eq(*owner, pod);
            is_live(pod) && (is_host(pod) || self.owner(*address).as_ref().is_some_and(is_own))
        });
        all
    }

    /// What the end with the address `own` says of a connection with `other`.
    pub(crate) fn view(&self, direction: Direction, own: IpAddr, other: IpAddr) -> View<'w> {
        let Some(pod) = self.owner(own) else {
            return View::Clear(Said::NoPod);
        };
        let other_pod = self.owner(other);
        if other_pod.is_some_and(|other| std::ptr::eq(other, pod)) {
            return View::Clear(Said::Itself);
        }
        if other_pod.is_none() && pods::is_node_of(self.world, pod, other) {
            return View::Clear(Said::OwnNode);
        }
        let about = self.policies_about(pod, direction);
        if about.is_empty() {
            return View::Clear(Said::NotIsolated);
        }
        let views = about.into_iter().map(|(name, policy)| {
            let rules = peers::rules(&policy["spec"], direction).iter().enumerate();
            let views =
                rules.map(|(index, rule)| self.rule_view(name, direction, index, rule, other));
            (name.clone(), views.collect())
        });
        View::Isolated {
            policies: views.collect(),
            destination: match direction {
                Direction::Ingress => Some(pod),
                Direction::Egress => other_pod,
            },
            sctp: self.knowledge.sctp,
        }
    }

    /// The policies that isolate a pod, in order.
    fn policies_about(&self, pod: &Value, direction: Direction) -> Vec<(&'w Name, &'w Value)> {
        let policies = self.world.policies.iter();
        let about = policies.filter(|(name, policy)| {
            name.namespace == pod["metadata"]["namespace"]
                && peers::is_about(&policy["spec"], direction)
                && self.selects(policy, pod)
        });
        about.collect()
    }

    /// Whether a policy that is not ignored picks a pod that counts.
    pub(crate) fn selects(&self, policy: &Value, pod: &Value) -> bool {
        versions::is_known(&policy["spec"], self.knowledge) && self.targets(policy, pod)
    }

    /// Whether a policy, ignored or not, picks a pod that counts.
    pub(crate) fn targets(&self, policy: &Value, pod: &Value) -> bool {
        let selector = &policy["spec"]["podSelector"];
        policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
            && is_live(pod)
            && !is_host(pod)
            && (selector.is_null() || picks(selector, &pod["metadata"]["labels"]))
    }

    fn rule_view(
        &self,
        policy: &Name,
        direction: Direction,
        index: usize,
        rule: &'w Value,
        other: IpAddr,
    ) -> RuleView<'w> {
        let (rules, field) = match direction {
            Direction::Ingress => ("ingress", "from"),
            Direction::Egress => ("egress", "to"),
        };
        let peers = list(&rule[field]);
        let found = peers
            .iter()
            .position(|peer| self.is_peer(&policy.namespace, peer, other));
        RuleView {
            place: format!("spec.{rules}[{index}]"),
            is_peer: peers.is_empty() || found.is_some(),
            peer: found.map(|index| format!("{field}[{index}]")),
            ports: list(&rule["ports"]),
        }
    }
}

impl View<'_> {
    pub(crate) fn at(&self, port: PortOf) -> Said {
        let (policies, destination, sctp) = match self {
            View::Clear(said) => return said.clone(),
            View::Isolated {
                policies,
                destination,
                sctp,
            } => (policies, *destination, *sctp),
        };
        let mut grants = Vec::new();
        for (policy, rules) in policies {
            for rule in rules.iter().filter(|rule| rule.is_peer) {
                let found = rule
                    .ports
                    .iter()
                    .position(|written| ports::is_meant(written, port, destination, sctp));
                if rule.ports.is_empty() || found.is_some() {
                    grants.push(Grant {
                        policy: policy.clone(),
                        rule: rule.place.clone(),
                        peer: rule.peer.clone(),
                        port: found.map(|index| format!("ports[{index}]")),
                    });
                }
            }
        }
        if grants.is_empty() {
            let refusals = policies
                .iter()
                .map(|(policy, rules)| (policy.clone(), rules.len()));
            return Said::Denied(refusals.collect());
        }
        Said::Allowed(grants)
    }
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
