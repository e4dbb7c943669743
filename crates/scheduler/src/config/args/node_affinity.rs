//! Nodes that all pods of a profile are bound to, or like.

use std::sync::Arc;

use rhumb_meta::field::{BadValue, Error, ErrorList, Path};
use rhumb_meta::labels::{Operator, Requirement as LabelRequirement, Selector};

use super::form::{Args, NodeAffinity, Requirement, Term};
use crate::model::{NodeMatch, NodeRequirement, NodeSelector, NodeTerm, PreferredNodes};
use crate::plugins::node_affinity::AddedAffinity;

const OPERATORS: [(&str, Operator); 6] = [
    ("In", Operator::In),
    ("NotIn", Operator::NotIn),
    ("Exists", Operator::Exists),
    ("DoesNotExist", Operator::DoesNotExist),
    ("Gt", Operator::GreaterThan),
    ("Lt", Operator::LessThan),
];

pub(super) fn read(args: &Args, path: &Path<'_>, errors: &mut ErrorList) -> AddedAffinity {
    let Some(added) = &args.added_affinity else {
        return AddedAffinity::default();
    };
    let path = path.child("addedAffinity");
    let terms = required(added, &path, errors);
    AddedAffinity {
        required: terms.map(|terms| Arc::new(NodeSelector::new(None, Some(terms)))),
        preferred: preferred(added, &path, errors),
    }
}

fn required(
    added: &NodeAffinity,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Option<Box<[NodeTerm]>> {
    let selector = added.required.as_ref()?;
    let path = path.child("requiredDuringSchedulingIgnoredDuringExecution");
    let path = path.child("nodeSelectorTerms");
    let terms = selector.node_selector_terms.iter().flatten().enumerate();
    let terms = terms.filter_map(|(index, term)| read_term(term, &path.index(index), errors));
    Some(terms.collect())
}

fn preferred(added: &NodeAffinity, path: &Path<'_>, errors: &mut ErrorList) -> PreferredNodes {
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

/// `None` if it selects nothing.
fn read_term(term: &Term, path: &Path<'_>, errors: &mut ErrorList) -> Option<NodeTerm> {
    let labels = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if labels.is_empty() && fields.is_empty() {
        return None;
    }
    let (labels_path, fields_path) = (path.child("matchExpressions"), path.child("matchFields"));
    let selector: Vec<LabelRequirement> = labels
        .iter()
        .enumerate()
        .filter_map(|(index, one)| of_labels(one, &labels_path.index(index), errors))
        .collect();
    Some(NodeTerm {
        labels: (!labels.is_empty()).then(|| Selector::new(selector)),
        fields: fields
            .iter()
            .enumerate()
            .filter_map(|(index, one)| of_fields(one, &fields_path.index(index), errors))
            .collect(),
    })
}

fn of_labels(
    wanted: &Requirement,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Option<LabelRequirement> {
    let mut operators = OPERATORS.iter();
    let Some((_, operator)) = operators.find(|(name, _)| *name == wanted.operator) else {
        refuse_operator(wanted, path, &OPERATORS.map(|(name, _)| name), errors);
        return None;
    };
    let values = wanted.values.as_deref().unwrap_or_default();
    let made = LabelRequirement::new_at(path, &wanted.key, *operator, values);
    made.map_err(|problems| problems.iter().for_each(|one| errors.push(one.clone())))
        .ok()
}

fn of_fields(
    wanted: &Requirement,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Option<NodeRequirement> {
    let is = match wanted.operator.as_str() {
        "In" => NodeMatch::Is,
        "NotIn" => NodeMatch::IsNot,
        _ => {
            refuse_operator(wanted, path, &["In", "NotIn"], errors);
            return None;
        }
    };
    let values = wanted.values.as_deref().unwrap_or_default();
    let [name] = values else {
        errors.push(Error::invalid(
            &path.child("values"),
            BadValue::json(values),
            "must have one element",
        ));
        return None;
    };
    if wanted.key != "metadata.name" {
        // Upstream takes others, and matches nothing with them.
        errors.push(Error::not_supported(
            &path.child("key"),
            wanted.key.as_str(),
            &["metadata.name"],
        ));
        return None;
    }
    Some(NodeRequirement {
        name: name.as_str().into(),
        wanted: is,
    })
}

fn refuse_operator(wanted: &Requirement, path: &Path<'_>, known: &[&str], errors: &mut ErrorList) {
    let operator = wanted.operator.as_str();
    errors.push(Error::not_supported(
        &path.child("operator"),
        operator,
        known,
    ));
}
