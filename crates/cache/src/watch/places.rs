//! Finds the watchers that a change may concern without asking all of them.
//!
//! Each watcher sits in one place, chosen when it begins by the most selective thing it asks for. A change
//! goes to the places of the object as it was and as it is: whoever it concerns sits in one of those, because
//! it can only concern a watcher whose requirement the old or the new object meets. The cost is a few look-ups
//! for each label of the object, however many watchers there are.

use std::collections::HashMap;
use std::sync::Arc;

use rhumb_meta::fields::{self, Operator as FieldOperator};
use rhumb_meta::labels::{self, Operator as LabelOperator};

use super::{Filter, Mailbox, Scope};
use crate::change::Change;
use crate::{Entry, EventKind};

/// A requirement with more values than this sits under its key alone.
const LABEL_VALUES_MAX: usize = 64;

/// Which watcher.
pub(crate) type Seat = usize;

/// An event on its way to a watcher.
pub(crate) type Delivery = (Seat, Arc<Change>, EventKind);

/// Where a watcher sits.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// It can never be told anything.
    Nowhere,
    Name(Box<str>),
    Field(usize, Box<str>),
    Label(Box<str>, Vec<Box<str>>),
    LabelKey(Box<str>),
    Namespace(Box<str>),
    Everywhere,
}

#[derive(Debug)]
pub(crate) struct Places {
    /// The names of the resource's selectable fields.
    field_names: Arc<[Arc<str>]>,
    seats: Vec<Option<Seated>>,
    free: Vec<Seat>,
    by_name: Seats,
    /// By the number of the field.
    by_field: Vec<Seats>,
    by_label: HashMap<Box<str>, LabelSeats>,
    by_namespace: Seats,
    everywhere: Vec<Seat>,
}

#[derive(Debug)]
struct Seated {
    mailbox: Arc<Mailbox>,
    /// The change it was last found for, so that no change finds it twice.
    found_for: Option<u64>,
}

type Seats = HashMap<Box<str>, Vec<Seat>>;

#[derive(Debug, Default)]
struct LabelSeats {
    any_value: Vec<Seat>,
    by_value: Seats,
}

impl Places {
    pub(crate) fn new(field_names: &[Arc<str>]) -> Self {
        Places {
            field_names: field_names.into(),
            seats: Vec::new(),
            free: Vec::new(),
            by_name: Seats::new(),
            by_field: field_names.iter().map(|_| Seats::new()).collect(),
            by_label: HashMap::new(),
            by_namespace: Seats::new(),
            everywhere: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.seats.len() - self.free.len()
    }

    pub(crate) fn mailboxes(&self) -> impl Iterator<Item = &Arc<Mailbox>> {
        self.seats.iter().flatten().map(|seated| &seated.mailbox)
    }

    pub(crate) fn mailbox(&self, seat: Seat) -> Option<&Arc<Mailbox>> {
        self.seats.get(seat)?.as_ref().map(|seated| &seated.mailbox)
    }

    pub(crate) fn sit(&mut self, mailbox: Arc<Mailbox>) -> Seat {
        let place = choose(&mailbox.filter, &self.field_names);
        let seated = Some(Seated {
            mailbox,
            found_for: None,
        });
        let seat = match self.free.pop() {
            Some(seat) => {
                self.seats[seat] = seated;
                seat
            }
            None => {
                self.seats.push(seated);
                self.seats.len() - 1
            }
        };
        self.each_bench(&place, |bench| bench.push(seat));
        seat
    }

    pub(crate) fn leave(&mut self, seat: Seat) {
        let Some(seated) = self.seats.get_mut(seat).and_then(Option::take) else {
            return;
        };
        self.free.push(seat);
        let place = choose(&seated.mailbox.filter, &self.field_names);
        self.each_bench(&place, |bench| {
            if let Some(index) = bench.iter().position(|&other| other == seat) {
                bench.swap_remove(index);
            }
        });
        self.clear_away(&place);
        if self.free.len() == self.seats.len() {
            (self.seats, self.free) = (Vec::new(), Vec::new());
        }
    }

    /// Adds to `found` every watcher that the change concerns, each once.
    pub(crate) fn find(&mut self, change: &Arc<Change>, found: &mut Vec<Delivery>) {
        let Places {
            seats, field_names, ..
        } = self;
        let mut visit = |bench: &[Seat]| {
            for &seat in bench {
                let Some(seated) = seats.get_mut(seat).and_then(Option::as_mut) else {
                    continue;
                };
                if seated.found_for.replace(change.sequence) == Some(change.sequence) {
                    continue;
                }
                if let Some(kind) = seated.mailbox.filter.judge(change, field_names) {
                    found.push((seat, Arc::clone(change), kind));
                }
            }
        };
        visit(&self.everywhere);
        visit(seats_of(&self.by_name, change.key.name()));
        if let Some(namespace) = change.key.namespace() {
            visit(seats_of(&self.by_namespace, namespace));
        }
        for entry in [change.old.as_ref(), change.new.served()]
            .into_iter()
            .flatten()
        {
            visit_fields(&self.by_field, entry, &mut visit);
            visit_labels(&self.by_label, entry, &mut visit);
        }
    }

    /// The lists of seats that belong to a place.
    fn each_bench(&mut self, place: &Place, mut act: impl FnMut(&mut Vec<Seat>)) {
        match place {
            Place::Nowhere => {}
            Place::Name(name) => act(self.by_name.entry(name.clone()).or_default()),
            Place::Field(index, value) => {
                if let Some(seats) = self.by_field.get_mut(*index) {
                    act(seats.entry(value.clone()).or_default());
                }
            }
            Place::Label(key, values) => {
                let seats = self.by_label.entry(key.clone()).or_default();
                for value in values {
                    act(seats.by_value.entry(value.clone()).or_default());
                }
            }
            Place::LabelKey(key) => {
                act(&mut self.by_label.entry(key.clone()).or_default().any_value);
            }
            Place::Namespace(name) => act(self.by_namespace.entry(name.clone()).or_default()),
            Place::Everywhere => act(&mut self.everywhere),
        }
    }

    /// Removes what is empty, so that places nobody asks for any more take no memory.
    fn clear_away(&mut self, place: &Place) {
        let remove_empty = |seats: &mut Seats, key: &str| {
            if seats.get(key).is_some_and(Vec::is_empty) {
                seats.remove(key);
            }
        };
        match place {
            Place::Name(name) => remove_empty(&mut self.by_name, name),
            Place::Namespace(name) => remove_empty(&mut self.by_namespace, name),
            Place::Field(index, value) => {
                if let Some(seats) = self.by_field.get_mut(*index) {
                    remove_empty(seats, value);
                }
            }
            Place::Label(key, values) => {
                if let Some(seats) = self.by_label.get_mut(key) {
                    values
                        .iter()
                        .for_each(|value| remove_empty(&mut seats.by_value, value));
                }
                self.clear_label(key);
            }
            Place::LabelKey(key) => self.clear_label(key),
            Place::Nowhere | Place::Everywhere => {}
        }
    }

    fn clear_label(&mut self, key: &str) {
        let is_empty = |seats: &LabelSeats| seats.any_value.is_empty() && seats.by_value.is_empty();
        if self.by_label.get(key).is_some_and(is_empty) {
            self.by_label.remove(key);
        }
    }
}

fn seats_of<'a>(seats: &'a Seats, key: &str) -> &'a [Seat] {
    seats.get(key).map_or(&[], Vec::as_slice)
}

fn visit_fields(by_field: &[Seats], entry: &Entry, visit: &mut impl FnMut(&[Seat])) {
    for (index, seats) in by_field.iter().enumerate() {
        if !seats.is_empty() {
            visit(seats_of(seats, entry.field(index)));
        }
    }
}

fn visit_labels(
    by_label: &HashMap<Box<str>, LabelSeats>,
    entry: &Entry,
    visit: &mut impl FnMut(&[Seat]),
) {
    if by_label.is_empty() {
        return;
    }
    for (key, value) in entry.labels() {
        if let Some(seats) = by_label.get(&**key) {
            visit(&seats.any_value);
            visit(seats_of(&seats.by_value, value));
        }
    }
}

/// The most selective place of a filter: whatever it picks is found there.
fn choose(filter: &Filter, field_names: &[Arc<str>]) -> Place {
    let (Some(fields), Some(labels)) = (filter.fields.requirements(), filter.labels.requirements())
    else {
        return Place::Nowhere;
    };
    if let Scope::Object { name, .. } = &filter.scope {
        return Place::Name(name.clone());
    }
    if let Some(name) = filter.fields.requires_exact_match("metadata.name") {
        return Place::Name(name.into());
    }
    field_place(fields, field_names)
        .or_else(|| label_place(labels))
        .or_else(|| namespace_place(filter))
        .unwrap_or(Place::Everywhere)
}

fn field_place(requirements: &[fields::Requirement], names: &[Arc<str>]) -> Option<Place> {
    requirements
        .iter()
        .filter(|requirement| requirement.operator() == FieldOperator::Equals)
        .find_map(|requirement| {
            let index = names
                .iter()
                .position(|name| **name == *requirement.field())?;
            Some(Place::Field(index, requirement.value().into()))
        })
}

/// The requirement with the fewest values; one that only asks for the key if there is none with values.
fn label_place(requirements: &[labels::Requirement]) -> Option<Place> {
    let with_values = requirements.iter().filter_map(|requirement| {
        let mut values = requirement.exact_values()?.to_vec();
        values.dedup();
        (values.len() <= LABEL_VALUES_MAX).then(|| (requirement.key(), values))
    });
    if let Some((key, values)) = with_values.min_by_key(|(_, values)| values.len()) {
        return Some(Place::Label(key.into(), values));
    }
    let needs_key = |requirement: &&labels::Requirement| {
        !matches!(
            requirement.operator(),
            LabelOperator::NotEquals | LabelOperator::NotIn | LabelOperator::DoesNotExist
        )
    };
    let requirement = requirements.iter().find(needs_key)?;
    Some(Place::LabelKey(requirement.key().into()))
}

fn namespace_place(filter: &Filter) -> Option<Place> {
    let by_field = || filter.fields.requires_exact_match("metadata.namespace");
    // Objects of the cluster have no namespace, which a selector calls the empty one.
    let namespace = filter.scope.namespace().or_else(by_field)?;
    (!namespace.is_empty()).then(|| Place::Namespace(namespace.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_meta::Revision;

    fn check(scope: Scope, labels: &str, fields: &str, expect: Place) {
        let filter = Filter {
            scope,
            labels: labels.parse().expect(labels),
            fields: fields.parse().expect(fields),
            after: Revision::ZERO,
        };
        let names = ["spec.nodeName".into(), "status.phase".into()];
        assert_eq!(choose(&filter, &names), expect, "{labels} {fields}");
    }

    #[test]
    fn a_watcher_sits_where_the_fewest_changes_come_by() {
        let label = |key: &str, values: &[&str]| {
            Place::Label(
                key.into(),
                values.iter().map(|&value| value.into()).collect(),
            )
        };
        let team = || Scope::Namespace("team".into());
        check(Scope::All, "", "", Place::Everywhere);
        check(team(), "", "", Place::Namespace("team".into()));
        check(
            team(),
            "a!=b,!c,d notin (e)",
            "status.phase!=x",
            Place::Namespace("team".into()),
        );
        check(team(), "a!=b,c", "", Place::LabelKey("c".into()));
        check(Scope::All, "a>3", "", Place::LabelKey("a".into()));
        check(Scope::All, "a in (x,y),b=z,c", "", label("b", &["z"]));
        check(Scope::All, "a in (y,x,y)", "", label("a", &["x", "y"]));
        check(
            Scope::All,
            "a=b",
            "status.phase=",
            Place::Field(1, "".into()),
        );
        check(Scope::All, "a=b", "other=x", label("a", &["b"]));
        check(
            Scope::All,
            "a=b",
            "status.phase=x,metadata.name=n",
            Place::Name("n".into()),
        );
        check(
            Scope::All,
            "",
            "metadata.namespace=n",
            Place::Namespace("n".into()),
        );
        check(Scope::All, "", "metadata.namespace=", Place::Everywhere);
        let values: Vec<String> = (0..=LABEL_VALUES_MAX).map(|n| n.to_string()).collect();
        let many = format!("a in ({})", values.join(","));
        check(Scope::All, &many, "", Place::LabelKey("a".into()));
        let object = Scope::Object {
            namespace: None,
            name: "n".into(),
        };
        check(object, "a=b", "", Place::Name("n".into()));
    }
}
