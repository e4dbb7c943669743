//! Arguments of `NodeAffinity`: `addedAffinity`, the node affinity added to every pod of a profile.

use std::sync::Arc;

use rhumb_meta::field::{BadValue, Error, ErrorList, Path};
use rhumb_meta::labels::{Operator, Requirement as LabelRequirement, Selector};

use super::v1::{RawNodeAffinity, RawNodeSelectorRequirement, RawNodeSelectorTerm, RawPluginArgs};
use crate::model::{
    NodeNameOperator, NodeNameRequirement, NodeSelector, NodeSelectorTerm, PreferredNodeTerms,
};
use crate::plugins::node_affinity::AddedAffinity;

const OPERATORS: [(&str, Operator); 6] = [
    ("In", Operator::In),
    ("NotIn", Operator::NotIn),
    ("Exists", Operator::Exists),
    ("DoesNotExist", Operator::DoesNotExist),
    ("Gt", Operator::GreaterThan),
    ("Lt", Operator::LessThan),
];

pub(super) fn read(args: &RawPluginArgs, path: &Path<'_>, errors: &mut ErrorList) -> AddedAffinity {
    let Some(added) = &args.added_affinity else {
        return AddedAffinity::default();
    };
    let path = path.child("addedAffinity");
    let terms = read_required(added, &path, errors);
    AddedAffinity {
        required: terms.map(|terms| Arc::new(NodeSelector::new(None, Some(terms)))),
        preferred: read_preferred(added, &path, errors),
    }
}

fn read_required(
    added: &RawNodeAffinity,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Option<Box<[NodeSelectorTerm]>> {
    let selector = added.required.as_ref()?;
    let path = path.child("requiredDuringSchedulingIgnoredDuringExecution");
    let path = path.child("nodeSelectorTerms");
    let terms = selector.node_selector_terms.iter().flatten().enumerate();
    let terms = terms.filter_map(|(index, term)| read_term(term, &path.index(index), errors));
    Some(terms.collect())
}

fn read_preferred(
    added: &RawNodeAffinity,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> PreferredNodeTerms {
    let path = path.child("preferredDuringSchedulingIgnoredDuringExecution");
    let terms = added.preferred.iter().flatten().enumerate();
    let terms = terms.filter(|(_, term)| term.weight != 0);
    let terms = terms.filter_map(|(index, term)| {
        let path = path.index(index);
        let node = read_term(term.preference.as_ref()?, &path.child("preference"), errors)?;
        Some((node, term.weight))
    });
    terms.collect()
}

/// `None` if the term is empty: an empty term matches no node.
fn read_term(
    term: &RawNodeSelectorTerm,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Option<NodeSelectorTerm> {
    let labels = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if labels.is_empty() && fields.is_empty() {
        return None;
    }
    let (labels_path, fields_path) = (path.child("matchExpressions"), path.child("matchFields"));
    let selector: Vec<LabelRequirement> = labels
        .iter()
        .enumerate()
        .filter_map(|(index, raw)| read_label_requirement(raw, &labels_path.index(index), errors))
        .collect();
    Some(NodeSelectorTerm {
        labels: (!labels.is_empty()).then(|| Selector::new(selector)),
        fields: fields
            .iter()
            .enumerate()
            .filter_map(|(index, raw)| {
                read_field_requirement(raw, &fields_path.index(index), errors)
            })
            .collect(),
    })
}

fn read_label_requirement(
    raw: &RawNodeSelectorRequirement,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Option<LabelRequirement> {
    let mut operators = OPERATORS.iter();
    let Some((_, operator)) = operators.find(|(name, _)| *name == raw.operator) else {
        push_unsupported_operator(raw, path, &OPERATORS.map(|(name, _)| name), errors);
        return None;
    };
    let values = raw.values.as_deref().unwrap_or_default();
    let requirement = LabelRequirement::new_at(path, &raw.key, *operator, values);
    requirement
        .map_err(|problems| problems.iter().for_each(|error| errors.push(error.clone())))
        .ok()
}

fn read_field_requirement(
    raw: &RawNodeSelectorRequirement,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Option<NodeNameRequirement> {
    let operator = match raw.operator.as_str() {
        "In" => NodeNameOperator::In,
        "NotIn" => NodeNameOperator::NotIn,
        _ => {
            push_unsupported_operator(raw, path, &["In", "NotIn"], errors);
            return None;
        }
    };
    let values = raw.values.as_deref().unwrap_or_default();
    let [name] = values else {
        errors.push(Error::invalid(
            &path.child("values"),
            BadValue::json(values),
            "must have one element",
        ));
        return None;
    };
    if raw.key != "metadata.name" {
        // Upstream accepts other fields, but they match no node.
        errors.push(Error::not_supported(
            &path.child("key"),
            raw.key.as_str(),
            &["metadata.name"],
        ));
        return None;
    }
    Some(NodeNameRequirement {
        name: name.as_str().into(),
        operator,
    })
}

fn push_unsupported_operator(
    raw: &RawNodeSelectorRequirement,
    path: &Path<'_>,
    supported: &[&str],
    errors: &mut ErrorList,
) {
    let operator = raw.operator.as_str();
    errors.push(Error::not_supported(
        &path.child("operator"),
        operator,
        supported,
    ));
}
