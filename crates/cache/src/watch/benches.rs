//! Those who wait in one namespace, or in all of them, by what they wait for.

use std::collections::HashMap;

use super::place::Trigger;
use super::places::Seat;
use crate::Entry;
use crate::change::Change;

/// Those who wait for the same.
type Bench = Vec<Seat>;

type ByText = HashMap<Box<str>, Bench>;

#[derive(Debug, Default)]
pub(super) struct Benches {
    by_name: ByText,
    /// By the number of the field.
    by_field: HashMap<usize, ByText>,
    by_label: HashMap<Box<str>, ByLabel>,
    anything: Bench,
}

#[derive(Debug, Default)]
struct ByLabel {
    any_value: Bench,
    by_value: ByText,
}

impl Benches {
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
            && self.by_field.is_empty()
            && self.by_label.is_empty()
            && self.anything.is_empty()
    }

    /// How many wait for this already.
    pub(super) fn crowd(&self, trigger: &Trigger) -> usize {
        let length = |bench: Option<&Bench>| bench.map_or(0, Vec::len);
        match trigger {
            Trigger::Nothing => 0,
            Trigger::Name(name) => length(self.by_name.get(name)),
            Trigger::Field(index, value) => {
                length(self.by_field.get(index).and_then(|all| all.get(value)))
            }
            Trigger::Label(key, values) => {
                let all = self.by_label.get(key);
                let of_value = |value| length(all.and_then(|all| all.by_value.get(value)));
                values.iter().map(of_value).sum()
            }
            Trigger::LabelKey(key) => length(self.by_label.get(key).map(|all| &all.any_value)),
            Trigger::Anything => self.anything.len(),
        }
    }

    /// The benches of those who wait for this; one that is not there yet is made.
    pub(super) fn each(&mut self, trigger: &Trigger, mut act: impl FnMut(&mut Bench)) {
        match trigger {
            Trigger::Nothing => {}
            Trigger::Name(name) => act(self.by_name.entry(name.clone()).or_default()),
            Trigger::Field(index, value) => {
                let all = self.by_field.entry(*index).or_default();
                act(all.entry(value.clone()).or_default());
            }
            Trigger::Label(key, values) => {
                let all = self.by_label.entry(key.clone()).or_default();
                for value in values {
                    act(all.by_value.entry(value.clone()).or_default());
                }
            }
            Trigger::LabelKey(key) => {
                act(&mut self.by_label.entry(key.clone()).or_default().any_value);
            }
            Trigger::Anything => act(&mut self.anything),
        }
    }

    /// Somebody waits no longer. What is empty is removed: what nobody waits for takes no memory.
    pub(super) fn leave(&mut self, trigger: &Trigger, seat: Seat) {
        self.each(trigger, |bench| {
            if let Some(index) = bench.iter().position(|&other| other == seat) {
                bench.swap_remove(index);
            }
        });
        match trigger {
            Trigger::Name(name) => remove_empty(&mut self.by_name, name),
            Trigger::Field(index, value) => {
                if let Some(all) = self.by_field.get_mut(index) {
                    remove_empty(all, value);
                    if all.is_empty() {
                        self.by_field.remove(index);
                    }
                }
            }
            Trigger::Label(key, values) => {
                if let Some(all) = self.by_label.get_mut(key) {
                    for value in values {
                        remove_empty(&mut all.by_value, value);
                    }
                }
                self.clear_label(key);
            }
            Trigger::LabelKey(key) => self.clear_label(key),
            Trigger::Nothing | Trigger::Anything => {}
        }
    }

    fn clear_label(&mut self, key: &str) {
        let is_empty = |all: &ByLabel| all.any_value.is_empty() && all.by_value.is_empty();
        if self.by_label.get(key).is_some_and(is_empty) {
            self.by_label.remove(key);
        }
    }

    /// The benches that a change comes by, some perhaps twice.
    pub(super) fn visit(&self, change: &Change, visit: &mut impl FnMut(&[Seat])) {
        visit(&self.anything);
        if let Some(bench) = self.by_name.get(change.key.name()) {
            visit(bench);
        }
        let entries = [change.old.as_ref(), change.new.served()];
        for entry in entries.into_iter().flatten() {
            self.visit_fields(entry, visit);
            self.visit_labels(entry, visit);
        }
    }

    fn visit_fields(&self, entry: &Entry, visit: &mut impl FnMut(&[Seat])) {
        for (index, all) in &self.by_field {
            if let Some(bench) = all.get(entry.field(*index)) {
                visit(bench);
            }
        }
    }

    fn visit_labels(&self, entry: &Entry, visit: &mut impl FnMut(&[Seat])) {
        if self.by_label.is_empty() {
            return;
        }
        for (key, value) in entry.labels() {
            let Some(all) = self.by_label.get(&**key) else {
                continue;
            };
            visit(&all.any_value);
            if let Some(bench) = all.by_value.get(&**value) {
                visit(bench);
            }
        }
    }
}

fn remove_empty(benches: &mut ByText, key: &str) {
    if benches.get(key).is_some_and(Vec::is_empty) {
        benches.remove(key);
    }
}
