//! Explains a rejection by `NodeAffinity`: the requirements that the node does not meet.

use rhumb_meta::labels::Selector;

use crate::model::{Node, NodeNameOperator, NodeSelector, NodeSelectorTerm};

pub(super) fn unmet_selector(selector: &NodeSelector, node: &Node) -> Option<String> {
    if let Some(unmet) = selector
        .labels
        .as_ref()
        .and_then(|own| unmet_label(own, node))
    {
        return Some(format!("spec.nodeSelector: {unmet}"));
    }
    let terms = selector.terms.as_ref()?;
    let unmet: Vec<String> = terms
        .iter()
        .filter_map(|term| unmet_term(term, node))
        .collect();
    match unmet.as_slice() {
        [] => Some("no node selector term can match any node".to_owned()),
        unmet => Some(unmet.join("; or: ")),
    }
}

fn unmet_term(term: &NodeSelectorTerm, node: &Node) -> Option<String> {
    let mut fields = term.fields.iter();
    let field =
        fields.find(|field| (field.name == node.name) != (field.operator == NodeNameOperator::In));
    if let Some(field) = field {
        let not = match field.operator {
            NodeNameOperator::In => "",
            NodeNameOperator::NotIn => "not ",
        };
        return Some(format!("the node must {not}be {}", field.name));
    }
    unmet_label(term.labels.as_ref()?, node)
}

fn unmet_label(selector: &Selector, node: &Node) -> Option<String> {
    let mut requirements = selector.requirements()?.iter();
    let unmet = requirements.find(|requirement| !requirement.matches(&node.labels))?;
    let key = unmet.key();
    Some(match node.labels.get(key) {
        Some(value) => format!("requires {unmet}, but the node has {key}={value}"),
        None => format!("requires {unmet}, but the node has no label {key}"),
    })
}
