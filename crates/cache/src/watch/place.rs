//! Where a watcher may sit: at something that every object it picks has.

use std::sync::Arc;

use rhumb_meta::fields::Operator;

use super::{Filter, Scope};

/// A requirement with more values than this sits under its key alone.
pub(super) const LABEL_VALUES_MAX: usize = 64;

/// What a watcher waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trigger {
    /// It can never be told anything.
    Nothing,
    Name(Box<str>),
    /// A selectable field, by its number, with this value.
    Field(usize, Box<str>),
    /// A label with one of these values.
    Label(Box<str>, Box<[Box<str>]>),
    LabelKey(Box<str>),
    /// Any object.
    Anything,
}

impl Trigger {
    /// How likely a change is to come by, as far as the trigger alone can tell.
    pub(super) fn weight(&self) -> usize {
        match self {
            Trigger::Nothing => 0,
            Trigger::Name(_) => 1,
            Trigger::Label(_, values) => 4 * values.len(),
            Trigger::Field(..) => 8,
            Trigger::LabelKey(_) => 256,
            Trigger::Anything => 1024,
        }
    }
}

/// Where a watcher sits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) trigger: Trigger,
    /// Only objects of this namespace, if one is named.
    pub(super) namespace: Option<Box<str>>,
}

impl Place {
    /// What it is called where watchers are counted.
    pub(super) fn index_name<'a>(&'a self, field_names: &'a [Arc<str>]) -> &'a str {
        match &self.trigger {
            Trigger::Name(_) => "metadata.name",
            Trigger::Field(index, _) => field_names.get(*index).map_or("", |name| name),
            Trigger::Label(key, _) | Trigger::LabelKey(key) => key,
            Trigger::Anything if self.namespace.is_some() => "metadata.namespace",
            Trigger::Anything | Trigger::Nothing => "",
        }
    }
}

/// All places where every object that the filter picks comes by. There is always one.
pub(super) fn places(filter: &Filter, field_names: &[Arc<str>], triggers: bool) -> Vec<Place> {
    let namespace = namespace(filter);
    let place = |trigger| Place {
        trigger,
        namespace: namespace.map(Into::into),
    };
    let (Some(fields), Some(labels)) = (filter.fields.requirements(), filter.labels.requirements())
    else {
        return vec![place(Trigger::Nothing)];
    };
    let mut places = vec![place(Trigger::Anything)];
    places.extend(name(filter).map(|name| place(Trigger::Name(name.into()))));
    if !triggers {
        return places;
    }
    for requirement in fields {
        let index = field_names
            .iter()
            .position(|name| **name == *requirement.field());
        if let (Some(index), Operator::Equals) = (index, requirement.operator()) {
            places.push(place(Trigger::Field(index, requirement.value().into())));
        }
    }
    for requirement in labels.iter().filter(|label| label.needs_label()) {
        let key = requirement.key().into();
        let mut values = requirement.exact_values().unwrap_or_default().to_vec();
        values.dedup();
        places.push(place(match values.len() {
            1..=LABEL_VALUES_MAX => Trigger::Label(key, values.into()),
            _ => Trigger::LabelKey(key),
        }));
    }
    places
}

fn name(filter: &Filter) -> Option<&str> {
    match &filter.scope {
        Scope::Object { name, .. } => Some(name),
        Scope::All | Scope::Namespace(_) => filter.fields.requires_exact_match("metadata.name"),
    }
}

fn namespace(filter: &Filter) -> Option<&str> {
    let by_field = || filter.fields.requires_exact_match("metadata.namespace");
    // Objects of the cluster have no namespace, which a selector calls the empty one.
    let namespace = filter.scope.namespace().or_else(by_field);
    namespace.filter(|namespace| !namespace.is_empty())
}
