//! Triggers that a watcher can be indexed by: a property that every object it matches must have. Corresponds to the
//! trigger values of upstream's `indexedWatchers`.

use std::sync::Arc;

use rhumb_meta::fields::Operator;

use super::{WatchFilter, WatchScope};

/// A label requirement with more values than this is indexed by its key alone.
pub(super) const LABEL_VALUES_MAX: usize = 64;

/// A property that an object must have to match a watcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WatchTrigger {
    /// The selectors can never match.
    Never,
    Name(Box<str>),
    /// A selectable field, by its index, with this value.
    Field(usize, Box<str>),
    /// A label with one of these values.
    Label(Box<str>, Box<[Box<str>]>),
    LabelKey(Box<str>),
    /// No property: every object can match.
    Always,
}

impl WatchTrigger {
    /// Relative estimate of how often changes hit the trigger, without knowledge of the objects.
    pub(super) fn cost(&self) -> usize {
        match self {
            WatchTrigger::Never => 0,
            WatchTrigger::Name(_) => 1,
            WatchTrigger::Label(_, values) => 4 * values.len(),
            WatchTrigger::Field(..) => 8,
            WatchTrigger::LabelKey(_) => 256,
            WatchTrigger::Always => 1024,
        }
    }
}

/// The trigger that a watcher is indexed by, within one namespace or in all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TriggerPlacement {
    pub(super) trigger: WatchTrigger,
    /// Only objects of this namespace; all if `None`.
    pub(super) namespace: Option<Box<str>>,
}

impl TriggerPlacement {
    /// The name under which watchers are counted in metrics.
    pub(super) fn index_name<'a>(&'a self, field_names: &'a [Arc<str>]) -> &'a str {
        match &self.trigger {
            WatchTrigger::Name(_) => "metadata.name",
            WatchTrigger::Field(index, _) => field_names.get(*index).map_or("", |name| name),
            WatchTrigger::Label(key, _) | WatchTrigger::LabelKey(key) => key,
            WatchTrigger::Always if self.namespace.is_some() => "metadata.namespace",
            WatchTrigger::Always | WatchTrigger::Never => "",
        }
    }
}

/// All placements that would find the watcher for every object that its filter matches. Never empty.
pub(super) fn candidate_placements(
    filter: &WatchFilter,
    field_names: &[Arc<str>],
    triggers: bool,
) -> Vec<TriggerPlacement> {
    let namespace = required_namespace(filter);
    let placement = |trigger| TriggerPlacement {
        trigger,
        namespace: namespace.map(Into::into),
    };
    let (Some(fields), Some(labels)) = (filter.fields.requirements(), filter.labels.requirements())
    else {
        return vec![placement(WatchTrigger::Never)];
    };
    let mut placements = vec![placement(WatchTrigger::Always)];
    placements.extend(required_name(filter).map(|name| placement(WatchTrigger::Name(name.into()))));
    if !triggers {
        return placements;
    }
    for requirement in fields {
        let index = field_names
            .iter()
            .position(|name| **name == *requirement.field());
        if let (Some(index), Operator::Equals) = (index, requirement.operator()) {
            placements.push(placement(WatchTrigger::Field(
                index,
                requirement.value().into(),
            )));
        }
    }
    for requirement in labels.iter().filter(|label| label.needs_label()) {
        let key = requirement.key().into();
        let mut values = requirement.exact_values().unwrap_or_default().to_vec();
        values.dedup();
        placements.push(placement(match values.len() {
            1..=LABEL_VALUES_MAX => WatchTrigger::Label(key, values.into()),
            _ => WatchTrigger::LabelKey(key),
        }));
    }
    placements
}

fn required_name(filter: &WatchFilter) -> Option<&str> {
    match &filter.scope {
        WatchScope::Object { name, .. } => Some(name),
        WatchScope::All | WatchScope::Namespace(_) => {
            filter.fields.requires_exact_match("metadata.name")
        }
    }
}

fn required_namespace(filter: &WatchFilter) -> Option<&str> {
    let by_field = || filter.fields.requires_exact_match("metadata.namespace");
    // A field selector matches cluster-scoped objects by the empty namespace.
    let namespace = filter.scope.namespace().or_else(by_field);
    namespace.filter(|namespace| !namespace.is_empty())
}
