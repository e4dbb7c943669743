//! Follows pods, namespaces and policies, and keeps what follows from them up to date.

use std::collections::BTreeSet;

use crate::judge::{Question, Verdict};
use crate::program::{Changes, Program};
use crate::summary::Summary;
use crate::{Name, Namespace, NetworkPolicy, Pod};

/// What an engine is to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All pods: for verdicts and summaries.
    Cluster,
    /// The rules of one node: policies that select no pod of it cost next to nothing.
    Node(String),
}

/// What an implementation knows of policies: others are ignored as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knowledge {
    pub versions: BTreeSet<String>,
    /// Whether SCTP can be told apart; otherwise no rule about it allows anything.
    pub sctp: bool,
}

#[derive(Debug)]
pub struct Engine {
    scope: Scope,
    knowledge: Knowledge,
}

impl Engine {
    pub fn new(scope: Scope, knowledge: Knowledge) -> Engine {
        Engine { scope, knowledge }
    }

    pub fn set_namespace(&mut self, _namespace: &Namespace) {}

    pub fn remove_namespace(&mut self, _name: &str) {}

    /// A new pod, or what is known of one now.
    pub fn set_pod(&mut self, _pod: &Pod) {}

    pub fn remove_pod(&mut self, _name: &Name) {}

    pub fn set_policy(&mut self, _policy: &NetworkPolicy) {}

    pub fn remove_policy(&mut self, _name: &Name) {}

    /// The names of all that there is, for what is compared with a new list.
    pub fn pods(&self) -> impl Iterator<Item = &Name> {
        std::iter::empty()
    }

    pub fn policies(&self) -> impl Iterator<Item = &Name> {
        std::iter::empty()
    }

    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        std::iter::empty()
    }

    /// `None` if an end is a pod that is not there, or has no address.
    pub fn judge(&self, _question: &Question) -> Option<Verdict> {
        None
    }

    pub fn summary(&self, _policy: &Name) -> Option<Summary> {
        None
    }

    /// Policies of which a summary may have changed since it was last asked; those that are gone too.
    pub fn take_touched(&mut self) -> BTreeSet<Name> {
        BTreeSet::new()
    }

    /// How the rules of the node have changed since this was last asked.
    pub fn take_changes(&mut self) -> Changes {
        Changes::default()
    }

    /// All rules of the node as of the last [`Engine::take_changes`].
    pub fn program(&self) -> &Program {
        unimplemented!()
    }

    /// The policies that select pods of this node, with uid and generation, as of the last [`Engine::take_changes`].
    pub fn applied(&self) -> impl Iterator<Item = (&Name, &str, i64)> {
        std::iter::empty()
    }
}
