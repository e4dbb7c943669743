//! Required and preferred node affinity, including `spec.nodeSelector`.

use std::sync::Arc;

use rhumb_meta::labels::Selector;

use super::Node;

/// `spec.nodeSelector` and required node affinity. Implements `Hash`, since plugins cache the matching nodes by it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct NodeSelector {
    /// `spec.nodeSelector`.
    pub labels: Option<Selector>,
    /// Required node affinity: one of the terms must match. `None` matches every node.
    pub terms: Option<Box<[NodeSelectorTerm]>>,
    /// Derived from the terms; read in every scheduling cycle.
    required_node_names: Option<Box<[Box<str>]>>,
}

impl NodeSelector {
    pub fn new(labels: Option<Selector>, terms: Option<Box<[NodeSelectorTerm]>>) -> NodeSelector {
        NodeSelector {
            required_node_names: terms.as_deref().and_then(required_node_names),
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

    /// The only nodes that can match, if every term requires a node name; sorted and unique. Empty if every term
    /// contradicts itself.
    pub fn names(&self) -> Option<&[Box<str>]> {
        self.required_node_names.as_deref()
    }
}

fn required_node_names(terms: &[NodeSelectorTerm]) -> Option<Box<[Box<str>]>> {
    let mut all = Vec::new();
    for term in terms {
        let required = term.fields.iter();
        let mut required = required.filter(|field| field.operator == NodeNameOperator::In);
        let name = &required.next()?.name;
        if required.all(|other| other.name == *name) {
            all.push(name.clone());
        }
    }
    all.sort_unstable();
    all.dedup();
    (!terms.is_empty()).then(|| all.into())
}

/// A node selector term: all its requirements must match.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeSelectorTerm {
    pub labels: Option<Selector>,
    pub fields: Box<[NodeNameRequirement]>,
}

/// A requirement of `matchFields`; the only supported field is `metadata.name`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeNameRequirement {
    pub name: Box<str>,
    pub operator: NodeNameOperator,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeNameOperator {
    In,
    NotIn,
}

impl NodeSelectorTerm {
    pub fn matches(&self, node: &Node) -> bool {
        let by_labels = self.labels.as_ref();
        by_labels.is_none_or(|labels| labels.matches(&node.labels))
            && self
                .fields
                .iter()
                .all(|field| (field.name == node.name) == (field.operator == NodeNameOperator::In))
    }
}

/// Preferred node affinity terms with their weights.
pub type PreferredNodeTerms = Arc<[(NodeSelectorTerm, i32)]>;
