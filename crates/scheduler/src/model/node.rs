//! A node.

use std::fmt;

use super::{Effect, Labels, Resources};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    pub name: Box<str>,
    pub labels: Labels,
    pub taints: Box<[Taint]>,
    pub is_unschedulable: bool,
    pub allocatable: Resources,
    /// How many pods it takes.
    pub pods_max: i64,
    pub images: Box<[Image]>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Taint {
    pub key: Box<str>,
    pub value: Box<str>,
    pub effect: Effect,
}

/// As kubectl writes them.
impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.value {
            "" => write!(f, "{}:{}", self.key, self.effect),
            value => write!(f, "{}={value}:{}", self.key, self.effect),
        }
    }
}

/// An image that a node has, under all its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
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
