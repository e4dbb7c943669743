//! Triggers that a watcher can be indexed by: a property that every object it matches must have. Corresponds to the
//! trigger values of upstream's `indexedWatchers`.

use std::sync::Arc;

use rhumb_meta::fields::Operator;
use rhumb_selection::{IndexTerm, InternedString, Interner, SelectorIndex, required_labels};

use super::watcher_index::WatcherId;
use super::{WatchFilter, WatchScope};
use crate::index::IndexedAttribute;

/// A label requirement with more values than this is indexed by its key alone.
pub(super) const LABEL_VALUES_MAX: usize = 64;

/// The properties that watchers of a resource can be indexed by, besides names and namespaces.
#[derive(Debug, Clone)]
pub(crate) struct TriggerOptions {
    /// The names of the resource's selectable fields.
    pub(crate) field_names: Arc<[Arc<str>]>,
    /// The list indexes that the kind or the administrator asks for.
    pub(crate) declared: Vec<IndexedAttribute>,
    /// If false, only declared fields are triggers.
    pub(crate) by_label: bool,
}

impl TriggerOptions {
    fn is_trigger(&self, field: usize) -> bool {
        self.by_label || self.declared.contains(&IndexedAttribute::Field(field))
    }

    /// The names of the declared labels and fields.
    pub(super) fn declared_names(&self) -> impl Iterator<Item = &str> {
        self.declared
            .iter()
            .filter_map(|attribute| match attribute {
                IndexedAttribute::Label(key) => Some(&**key),
                IndexedAttribute::Field(index) => self.field_names.get(*index).map(|name| &**name),
            })
    }
}

/// A property that an object must have to match a watcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WatchTrigger {
    /// The selectors can never match.
    Never,
    Name(Box<str>),
    /// A selectable field, by its index, with this value.
    Field(u16, Box<str>),
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

    /// Calls `act` with each term under which a watcher with this trigger is indexed.
    pub(super) fn for_each_term(
        &self,
        interner: &mut Interner,
        mut act: impl FnMut(IndexTerm<'_>),
    ) {
        match self {
            WatchTrigger::Never => {}
            WatchTrigger::Name(name) => act(IndexTerm::Name(&interner.intern(name))),
            WatchTrigger::Field(index, value) => {
                act(IndexTerm::Field(*index, &interner.intern(value)));
            }
            WatchTrigger::Label(key, values) => {
                let key = interner.intern(key);
                for value in values {
                    act(IndexTerm::Label(&key, &interner.intern(value)));
                }
            }
            WatchTrigger::LabelKey(key) => act(IndexTerm::Key(&interner.intern(key))),
            WatchTrigger::Always => act(IndexTerm::Any),
        }
    }

    /// Number of watchers that are indexed under the trigger.
    fn watchers_in(
        &self,
        index: &SelectorIndex<Option<InternedString>, WatcherId>,
        namespace: &Option<InternedString>,
        interner: &Interner,
    ) -> usize {
        // A text that is not interned is no trigger of any watcher.
        let count =
            |term: Option<IndexTerm<'_>>| term.map_or(0, |term| index.bucket_len(namespace, term));
        match self {
            WatchTrigger::Never => 0,
            WatchTrigger::Name(name) => count(interner.get(name).map(IndexTerm::Name)),
            WatchTrigger::Field(index, value) => count(
                interner
                    .get(value)
                    .map(|value| IndexTerm::Field(*index, value)),
            ),
            WatchTrigger::Label(key, values) => {
                let key = interner.get(key);
                let term = |value: &str| Some(IndexTerm::Label(key?, interner.get(value)?));
                values.iter().map(|value| count(term(value))).sum()
            }
            WatchTrigger::LabelKey(key) => count(interner.get(key).map(IndexTerm::Key)),
            WatchTrigger::Always => count(Some(IndexTerm::Any)),
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
    /// Number of watchers that have the same placement, or one of the same values.
    pub(super) fn watchers_in(
        &self,
        index: &SelectorIndex<Option<InternedString>, WatcherId>,
        interner: &Interner,
    ) -> usize {
        let namespace = match &self.namespace {
            None => None,
            Some(name) => match interner.get(name) {
                None => return 0,
                known => known.cloned(),
            },
        };
        self.trigger.watchers_in(index, &namespace, interner)
    }

    /// The name under which watchers are counted in metrics.
    pub(super) fn index_name<'a>(&'a self, field_names: &'a [Arc<str>]) -> &'a str {
        match &self.trigger {
            WatchTrigger::Name(_) => "metadata.name",
            WatchTrigger::Field(index, _) => {
                let name = field_names.get(usize::from(*index));
                name.map_or("", |name| name)
            }
            WatchTrigger::Label(key, _) | WatchTrigger::LabelKey(key) => key,
            WatchTrigger::Always if self.namespace.is_some() => "metadata.namespace",
            WatchTrigger::Always | WatchTrigger::Never => "",
        }
    }
}

/// All placements that would find the watcher for every object that its filter matches. Never empty.
pub(super) fn candidate_placements(
    filter: &WatchFilter,
    options: &TriggerOptions,
) -> Vec<TriggerPlacement> {
    let namespace = required_namespace(filter);
    let placement = |trigger| TriggerPlacement {
        trigger,
        namespace: namespace.map(Into::into),
    };
    let labels = required_labels(&filter.labels, LABEL_VALUES_MAX);
    let (Some(fields), Some(labels)) = (filter.fields.requirements(), labels) else {
        return vec![placement(WatchTrigger::Never)];
    };
    let mut placements = vec![placement(WatchTrigger::Always)];
    placements.extend(required_name(filter).map(|name| placement(WatchTrigger::Name(name.into()))));
    for requirement in fields {
        let mut names = options.field_names.iter();
        let index = names.position(|name| **name == *requirement.field());
        let index = index.filter(|index| options.is_trigger(*index));
        let index = index.and_then(|index| u16::try_from(index).ok());
        if let (Some(index), Operator::Equals) = (index, requirement.operator()) {
            placements.push(placement(WatchTrigger::Field(
                index,
                requirement.value().into(),
            )));
        }
    }
    if !options.by_label {
        return placements;
    }
    for label in labels {
        let key = label.key().into();
        placements.push(placement(match label.values() {
            Some(values) => WatchTrigger::Label(key, values.map(Into::into).collect()),
            None => WatchTrigger::LabelKey(key),
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
