//! Which nodes a pod may go to, or likes, by their labels and names.

use std::sync::Arc;

use rhumb_meta::labels::Selector;

use super::Node;

/// What must hold of a node. Equal for all pods that say the same, so that its answers can be kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeSelector {
    /// `spec.nodeSelector`.
    pub labels: Option<Selector>,
    /// `None` asks for nothing; of some, one must match.
    pub terms: Option<Box<[NodeTerm]>>,
    /// Follows from the terms, and is asked for in every decision.
    names: Option<Box<[Box<str>]>>,
}

impl NodeSelector {
    pub fn new(labels: Option<Selector>, terms: Option<Box<[NodeTerm]>>) -> NodeSelector {
        NodeSelector {
            names: terms.as_deref().and_then(names),
            labels,
            terms,
        }
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_none() && self.terms.is_none()
    }

    pub fn matches(&self, node: &Node) -> bool {
        let by_labels = self.labels.as_ref();
        by_labels.is_none_or(|labels| labels.matches(&node.labels))
            && self
                .terms
                .as_ref()
                .is_none_or(|terms| terms.iter().any(|term| term.matches(node)))
    }

    /// The only nodes that can match, where each term names one; each name once. Empty if each term contradicts itself.
    pub fn names(&self) -> Option<&[Box<str>]> {
        self.names.as_deref()
    }
}

fn names(terms: &[NodeTerm]) -> Option<Box<[Box<str>]>> {
    let mut all = Vec::new();
    for term in terms {
        let wanted = term.fields.iter();
        let mut wanted = wanted.filter(|field| field.wanted == NodeMatch::Is);
        let name = &wanted.next()?.name;
        if wanted.all(|other| other.name == *name) {
            all.push(name.clone());
        }
    }
    all.sort_unstable();
    all.dedup();
    (!terms.is_empty()).then(|| all.into())
}

/// Requirements that must all hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeTerm {
    pub labels: Option<Selector>,
    pub fields: Box<[NodeRequirement]>,
}

/// One of `matchFields`, which know the name only.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeRequirement {
    pub name: Box<str>,
    pub wanted: NodeMatch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeMatch {
    Is,
    IsNot,
}

impl NodeTerm {
    pub fn matches(&self, node: &Node) -> bool {
        let by_labels = self.labels.as_ref();
        by_labels.is_none_or(|labels| labels.matches(&node.labels))
            && self
                .fields
                .iter()
                .all(|field| (field.name == node.name) == (field.wanted == NodeMatch::Is))
    }
}

/// Nodes that a pod likes, each term with its weight.
pub type PreferredNodes = Arc<[(NodeTerm, i32)]>;
