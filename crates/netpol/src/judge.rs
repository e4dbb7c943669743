//! Whether a connection is allowed, and by which policies and rules.

use std::net::IpAddr;

use serde::Serialize;

use crate::{Name, Protocol};

/// A connection to judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub from: End,
    pub to: End,
    pub protocol: Protocol,
    /// The destination's port.
    pub port: u16,
}

/// One end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// A pod, at each of its addresses. With several, see [`Engine::judge`](crate::Engine::judge).
    Pod(Name),
    /// Whoever has that address: a pod, a node, or somebody outside.
    Address(IpAddr),
}

/// What is said about a connection: of both ends separately, and together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The addresses that were judged; several pairs where pods have two families.
    pub pairs: Vec<Pair>,
}

/// The verdict for one pair of addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pair {
    pub from: IpAddr,
    pub to: IpAddr,
    pub egress: Opinion,
    pub ingress: Opinion,
}

impl Pair {
    pub fn is_allowed(&self) -> bool {
        self.egress.is_allowed() && self.ingress.is_allowed()
    }
}

/// What one end says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "because", rename_all = "camelCase")]
pub enum Opinion {
    /// It is no pod that policies are about: outside, a node, a pod of the host network.
    NoPod,
    /// No policy isolates the pod in this direction.
    NotIsolated,
    /// A pod and itself.
    Itself,
    /// A pod and its own node.
    OwnNode,
    /// These rules allow it, each named once, in order of policies.
    Allowed { grants: Vec<Grant> },
    /// The pod is isolated by these policies, and no rule of theirs allows it.
    Denied { policies: Vec<Refusal> },
}

impl Opinion {
    pub fn is_allowed(&self) -> bool {
        !matches!(self, Opinion::Denied { .. })
    }
}

/// A rule that allows a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Grant {
    pub policy: Name,
    /// Where it is, such as `spec.ingress[0]`.
    pub rule: String,
    /// The first of its peers that matches, such as `from[1]`; `None` if the rule is about everybody.
    pub peer: Option<String>,
    /// The first of its ports that matches, such as `ports[0]`; `None` if the rule is about all.
    pub port: Option<String>,
}

/// A policy that isolates a pod and does not allow a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    pub policy: Name,
    /// Why each rule does not match, in order, in words for people: `spec.ingress[0]: no peer is ...`.
    pub rules: Vec<String>,
}
