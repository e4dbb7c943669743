//! Network policies: who may reach whom, why, and by which rules a node sees to it.
//!
//! Pure: objects go in ([`objects`]), and an [`Engine`] that follows their changes gives verdicts with reasons ([`judge`]),
//! the rules of one node and how they change ([`program`]), and what is to be told about each policy ([`summary`]).

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

pub mod engine;
pub mod flaws;
pub mod judge;
pub mod objects;
pub mod program;
pub mod summary;

pub use engine::{Engine, Knowledge, Scope};
pub use objects::{Namespace, NetworkPolicy, Pod};

use std::fmt;

use serde::{Deserialize, Serialize};

/// The namespace and the name of a pod or a policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Name {
    pub namespace: String,
    pub name: String,
}

impl Name {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Name {
        Name {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Which end of a connection a policy is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    Ingress,
    Egress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    V4,
    V6,
}
