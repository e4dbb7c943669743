//! The fields of a node that scheduling uses.

use std::fmt;

use super::{Labels, Resources, TaintEffect};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    pub name: Box<str>,
    pub labels: Labels,
    pub taints: Box<[Taint]>,
    pub is_unschedulable: bool,
    pub allocatable: Resources,
    /// Allocatable `pods`.
    pub max_pods: i64,
    pub images: Box<[NodeImage]>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Taint {
    pub key: Box<str>,
    pub value: Box<str>,
    pub effect: TaintEffect,
}

/// `key=value:effect`, as kubectl prints taints.
impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.value {
            "" => write!(f, "{}:{}", self.key, self.effect),
            value => write!(f, "{}={value}:{}", self.key, self.effect),
        }
    }
}

/// A container image on a node, with all its names (`status.images`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeImage {
    pub names: Box<[Box<str>]>,
    pub bytes: i64,
}

impl Node {
    pub fn zone(&self) -> Option<&str> {
        self.labels.get("topology.kubernetes.io/zone")
    }

    pub fn region(&self) -> Option<&str> {
        self.labels.get("topology.kubernetes.io/region")
    }
}
