//! What of a selector a node does not meet.

use rhumb_meta::labels::Selector;

use crate::model::{Node, NodeMatch, NodeSelector, NodeTerm};

pub(super) fn unmet(selector: &NodeSelector, node: &Node) -> Option<String> {
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
        .filter_map(|term| unmet_of_term(term, node))
        .collect();
    match unmet.as_slice() {
        [] => Some("no term can match a node".to_owned()),
        unmet => Some(unmet.join("; or: ")),
    }
}

fn unmet_of_term(term: &NodeTerm, node: &Node) -> Option<String> {
    let mut fields = term.fields.iter();
    let field = fields.find(|field| (field.name == node.name) != (field.wanted == NodeMatch::Is));
    if let Some(field) = field {
        let not = match field.wanted {
            NodeMatch::Is => "",
            NodeMatch::IsNot => "not ",
        };
        return Some(format!("it must {not}be node {}", field.name));
    }
    unmet_label(term.labels.as_ref()?, node)
}

fn unmet_label(selector: &Selector, node: &Node) -> Option<String> {
    let mut requirements = selector.requirements()?.iter();
    let unmet = requirements.find(|requirement| !requirement.matches(&node.labels))?;
    let key = unmet.key();
    Some(match node.labels.get(key) {
        Some(value) => format!("asked for is {unmet}, and the node has {key}={value}"),
        None => format!("asked for is {unmet}, and the node has no label {key}"),
    })
}
