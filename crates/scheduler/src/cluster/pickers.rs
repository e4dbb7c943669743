//! All pickers that pods brought, and which of them pick a pod.

use std::collections::HashMap;
use std::sync::Arc;

use rhumb_meta::labels::Requirement;

use super::ids::{PickerId, TermId};
use super::slots::Slots;
use crate::model::{Labels, NamespaceRule, Picker, Pod};

/// What picks pods.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    One(Arc<Picker>),
    /// Those that all of these pick, two or more, in order of their numbers.
    All(Box<[PickerId]>),
}

#[derive(Debug)]
pub(super) struct PickerSlot {
    pub(super) rule: Rule,
    users: usize,
    /// The terms that count what it picks.
    pub(super) terms: Vec<TermId>,
}

/// Pickers by what they say. Which of them pick a pod is found through one label that a pod must have, so that it
/// does not matter how many there are.
#[derive(Debug, Default)]
pub(super) struct Pickers {
    slots: Slots<PickerId, PickerSlot>,
    known: HashMap<Rule, PickerId>,
    /// By namespace and label, where a picker needs one; see [`Place`].
    by_place: HashMap<Box<str>, Vec<PickerId>>,
    /// Those that need no label.
    anywhere: Vec<PickerId>,
    /// Those that look at the labels of namespaces.
    by_namespace_labels: Vec<PickerId>,
    /// The text of a place, kept to be used again.
    scratch: String,
}

/// Where a picker is found: the namespace, if it names all it can include, and a label, with its value if that matters.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    namespace: Option<&'a str>,
    key: &'a str,
    value: Option<&'a str>,
}

impl Place<'_> {
    /// Names and labels have no control characters, so these keep the parts apart.
    fn write(&self, text: &mut String) {
        text.clear();
        if let Some(namespace) = self.namespace {
            text.push_str(namespace);
        }
        for part in std::iter::once(self.key).chain(self.value) {
            text.push('\0');
            text.push_str(part);
        }
    }
}

impl Pickers {
    pub(super) fn get(&self, id: PickerId) -> &PickerSlot {
        &self.slots[id]
    }

    pub(super) fn get_mut(&mut self, id: PickerId) -> &mut PickerSlot {
        &mut self.slots[id]
    }

    /// The picker that says this, and whether it is new. Each call is undone by one of [`Pickers::release`].
    pub(super) fn acquire(&mut self, rule: Rule) -> (PickerId, bool) {
        if let Some(known) = self.known.get(&rule) {
            self.slots[*known].users += 1;
            return (*known, false);
        }
        if let Rule::All(members) = &rule {
            for member in members {
                self.slots[*member].users += 1;
            }
        }
        let id = self.slots.insert(PickerSlot {
            rule: rule.clone(),
            users: 1,
            terms: Vec::new(),
        });
        let places = self.places(&rule);
        if places.is_empty() {
            self.anywhere.push(id);
        }
        for place in places {
            self.by_place.entry(place).or_default().push(id);
        }
        if self.looks_at_namespaces(&rule) {
            self.by_namespace_labels.push(id);
        }
        self.known.insert(rule, id);
        (id, true)
    }

    /// One more use of a picker that is in use.
    pub(super) fn share(&mut self, id: PickerId) {
        self.slots[id].users += 1;
    }

    /// Whether that was the last use: then it is still there, and goes with [`Pickers::remove`].
    pub(super) fn release(&mut self, id: PickerId) -> bool {
        let slot = &mut self.slots[id];
        slot.users -= 1;
        slot.users == 0
    }

    /// Takes out one that nobody uses. Its members, if it has any, are for the caller to release.
    pub(super) fn remove(&mut self, id: PickerId) -> Option<Rule> {
        let rule = self.slots.get(id)?.rule.clone();
        let places = self.places(&rule);
        if places.is_empty() {
            self.anywhere.retain(|known| *known != id);
        }
        for place in places {
            if let Some(found) = self.by_place.get_mut(&place) {
                found.retain(|known| *known != id);
                if found.is_empty() {
                    self.by_place.remove(&place);
                }
            }
        }
        self.by_namespace_labels.retain(|known| *known != id);
        self.known.remove(&rule);
        self.slots.remove(id);
        Some(rule)
    }

    /// All that pick a pod, in order of their numbers.
    pub(super) fn picking(&mut self, pod: &Pod, namespace_labels: &Labels) -> Vec<PickerId> {
        let mut text = std::mem::take(&mut self.scratch);
        let mut picking: Vec<PickerId> = Vec::new();
        let mut look_at = |candidates: &[PickerId]| {
            let candidates = candidates.iter().copied();
            picking.extend(candidates.filter(|id| self.picks(*id, pod, namespace_labels)));
        };
        look_at(&self.anywhere);
        for (key, value) in pod.labels.iter() {
            for namespace in [None, Some(&*pod.key.namespace)] {
                for value in [None, Some(value)] {
                    let place = Place {
                        namespace,
                        key,
                        value,
                    };
                    place.write(&mut text);
                    if let Some(candidates) = self.by_place.get(&*text) {
                        look_at(candidates);
                    }
                }
            }
        }
        self.scratch = text;
        picking.sort_unstable();
        picking
    }

    pub(super) fn picks(&self, id: PickerId, pod: &Pod, namespace_labels: &Labels) -> bool {
        match &self.slots[id].rule {
            Rule::One(picker) => picker.picks(pod, namespace_labels),
            Rule::All(members) => members
                .iter()
                .all(|member| self.picks(*member, pod, namespace_labels)),
        }
    }

    /// Those that include a namespace with one of these sets of labels, and not with the other.
    pub(super) fn telling_apart(
        &self,
        namespace: &str,
        before: &Labels,
        after: &Labels,
    ) -> Vec<PickerId> {
        let all = self.by_namespace_labels.iter().copied();
        all.filter(|id| {
            let mut rules = self.namespace_rules(&self.slots[*id].rule);
            rules.any(|rule| rule.includes(namespace, before) != rule.includes(namespace, after))
        })
        .collect()
    }

    /// One of those that all pods meet which are picked: that which says most clearly where they are found.
    pub(super) fn leading<'p>(&'p self, rule: &'p Rule) -> Option<&'p Arc<Picker>> {
        match rule {
            Rule::One(picker) => Some(picker),
            Rule::All(members) => {
                let leading = members.iter();
                let leading = leading.filter_map(|id| self.leading(&self.slots.get(*id)?.rule));
                leading.min_by_key(|picker| {
                    NeededLabel::of(picker).map_or(usize::MAX, |label| label.breadth())
                })
            }
        }
    }

    fn namespace_rules<'p>(
        &'p self,
        rule: &'p Rule,
    ) -> Box<dyn Iterator<Item = &'p NamespaceRule> + 'p> {
        match rule {
            Rule::One(picker) => Box::new(std::iter::once(&picker.namespaces)),
            Rule::All(members) => Box::new(
                members
                    .iter()
                    .flat_map(|member| self.namespace_rules(&self.slots[*member].rule)),
            ),
        }
    }

    fn looks_at_namespaces(&self, rule: &Rule) -> bool {
        self.namespace_rules(rule)
            .any(|rule| rule.fixed_names().is_none())
    }

    /// Where it is found: under each value of one label that it needs, in each namespace that it names. Empty if it
    /// needs no label, or would be in too many places.
    fn places(&self, rule: &Rule) -> Vec<Box<str>> {
        const PLACES_MAX: usize = 64;
        let Some(picker) = self.leading(rule) else {
            return Vec::new();
        };
        let Some(NeededLabel { key, values }) = NeededLabel::of(picker) else {
            return Vec::new();
        };
        let values: Vec<Option<&str>> = match values {
            Some(values) => values.iter().map(|value| Some(&**value)).collect(),
            None => vec![None],
        };
        let namespaces: Vec<Option<&str>> = match picker.namespaces.fixed_names() {
            Some(names) => names.iter().map(|name| Some(&**name)).collect(),
            None => vec![None],
        };
        if namespaces.len() * values.len() > PLACES_MAX {
            return Vec::new();
        }
        let mut text = String::new();
        let mut places = Vec::with_capacity(namespaces.len() * values.len());
        for namespace in namespaces {
            for value in values.iter().copied() {
                let place = Place {
                    namespace,
                    key,
                    value,
                };
                place.write(&mut text);
                places.push(Box::from(&*text));
            }
        }
        places.sort();
        places.dedup();
        places
    }
}

/// A label that every pod has that is picked.
#[derive(Debug, Clone, Copy)]
pub(super) struct NeededLabel<'p> {
    pub(super) key: &'p str,
    /// What it may be; `None` is anything.
    pub(super) values: Option<&'p [Box<str>]>,
}

impl<'p> NeededLabel<'p> {
    /// The one with the fewest values.
    pub(super) fn of(picker: &'p Picker) -> Option<NeededLabel<'p>> {
        let requirements = picker.selector.requirements()?.iter();
        requirements
            .filter(|requirement| requirement.needs_label())
            .map(|requirement: &Requirement| NeededLabel {
                key: requirement.key(),
                values: requirement.exact_values(),
            })
            .min_by_key(NeededLabel::breadth)
    }

    fn breadth(&self) -> usize {
        self.values.map_or(usize::MAX - 1, <[_]>::len)
    }
}

#[cfg(test)]
impl Pickers {
    pub(super) fn iter(&self) -> impl Iterator<Item = (PickerId, &PickerSlot)> {
        assert_eq!(self.known.len(), self.slots.len());
        self.slots.iter()
    }

    /// Whether there is anything to be found.
    pub(super) fn is_indexed(&self) -> bool {
        let lists = [&self.anywhere, &self.by_namespace_labels];
        !self.by_place.is_empty() || lists.iter().any(|list| !list.is_empty())
    }
}

#[cfg(test)]
impl PickerSlot {
    pub(super) fn users(&self) -> usize {
        self.users
    }
}
