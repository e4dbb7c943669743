//! Watchers of one namespace (or of all), bucketed by trigger.

use std::collections::HashMap;

use super::trigger::WatchTrigger;
use super::watcher_index::WatcherId;
use crate::CacheEntry;
use crate::object_change::ObjectChange;

/// The watchers that share a trigger.
type WatcherBucket = Vec<WatcherId>;

/// Buckets by the value of a name, field or label.
type BucketsByValue = HashMap<Box<str>, WatcherBucket>;

/// All buckets of one namespace, or of the watchers of all namespaces.
#[derive(Debug, Default)]
pub(super) struct TriggerBuckets {
    by_name: BucketsByValue,
    /// By the index of the field.
    by_field: HashMap<usize, BucketsByValue>,
    by_label: HashMap<Box<str>, LabelBuckets>,
    always: WatcherBucket,
}

/// The buckets of one label key.
#[derive(Debug, Default)]
struct LabelBuckets {
    any_value: WatcherBucket,
    by_value: BucketsByValue,
}

impl TriggerBuckets {
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
            && self.by_field.is_empty()
            && self.by_label.is_empty()
            && self.always.is_empty()
    }

    /// Number of watchers that are registered under the trigger.
    pub(super) fn bucket_len(&self, trigger: &WatchTrigger) -> usize {
        let length = |bucket: Option<&WatcherBucket>| bucket.map_or(0, Vec::len);
        match trigger {
            WatchTrigger::Never => 0,
            WatchTrigger::Name(name) => length(self.by_name.get(name)),
            WatchTrigger::Field(index, value) => {
                length(self.by_field.get(index).and_then(|all| all.get(value)))
            }
            WatchTrigger::Label(key, values) => {
                let all = self.by_label.get(key);
                let of_value = |value| length(all.and_then(|all| all.by_value.get(value)));
                values.iter().map(of_value).sum()
            }
            WatchTrigger::LabelKey(key) => length(self.by_label.get(key).map(|all| &all.any_value)),
            WatchTrigger::Always => self.always.len(),
        }
    }

    /// Calls `act` with each bucket of the trigger; missing buckets are created.
    pub(super) fn for_each_bucket(
        &mut self,
        trigger: &WatchTrigger,
        mut act: impl FnMut(&mut WatcherBucket),
    ) {
        match trigger {
            WatchTrigger::Never => {}
            WatchTrigger::Name(name) => act(self.by_name.entry(name.clone()).or_default()),
            WatchTrigger::Field(index, value) => {
                let all = self.by_field.entry(*index).or_default();
                act(all.entry(value.clone()).or_default());
            }
            WatchTrigger::Label(key, values) => {
                let all = self.by_label.entry(key.clone()).or_default();
                for value in values {
                    act(all.by_value.entry(value.clone()).or_default());
                }
            }
            WatchTrigger::LabelKey(key) => {
                act(&mut self.by_label.entry(key.clone()).or_default().any_value);
            }
            WatchTrigger::Always => act(&mut self.always),
        }
    }

    /// Removes a watcher, and the buckets that become empty.
    pub(super) fn remove(&mut self, trigger: &WatchTrigger, id: WatcherId) {
        self.for_each_bucket(trigger, |bucket| {
            if let Some(index) = bucket.iter().position(|&other| other == id) {
                bucket.swap_remove(index);
            }
        });
        match trigger {
            WatchTrigger::Name(name) => remove_if_empty(&mut self.by_name, name),
            WatchTrigger::Field(index, value) => {
                if let Some(all) = self.by_field.get_mut(index) {
                    remove_if_empty(all, value);
                    if all.is_empty() {
                        self.by_field.remove(index);
                    }
                }
            }
            WatchTrigger::Label(key, values) => {
                if let Some(all) = self.by_label.get_mut(key) {
                    for value in values {
                        remove_if_empty(&mut all.by_value, value);
                    }
                }
                self.remove_label_if_empty(key);
            }
            WatchTrigger::LabelKey(key) => self.remove_label_if_empty(key),
            WatchTrigger::Never | WatchTrigger::Always => {}
        }
    }

    fn remove_label_if_empty(&mut self, key: &str) {
        let is_empty = |all: &LabelBuckets| all.any_value.is_empty() && all.by_value.is_empty();
        if self.by_label.get(key).is_some_and(is_empty) {
            self.by_label.remove(key);
        }
    }

    /// Visits the buckets whose trigger the old or the new object has. A bucket may be visited twice.
    pub(super) fn visit_matching(
        &self,
        change: &ObjectChange,
        visit: &mut impl FnMut(&[WatcherId]),
    ) {
        visit(&self.always);
        if let Some(bucket) = self.by_name.get(change.key.name()) {
            visit(bucket);
        }
        let entries = [change.old.as_ref(), change.new.entry()];
        for entry in entries.into_iter().flatten() {
            self.visit_fields(entry, visit);
            self.visit_labels(entry, visit);
        }
    }

    fn visit_fields(&self, entry: &CacheEntry, visit: &mut impl FnMut(&[WatcherId])) {
        for (index, all) in &self.by_field {
            if let Some(bucket) = all.get(entry.field(*index)) {
                visit(bucket);
            }
        }
    }

    fn visit_labels(&self, entry: &CacheEntry, visit: &mut impl FnMut(&[WatcherId])) {
        if self.by_label.is_empty() {
            return;
        }
        for (key, value) in entry.labels() {
            let Some(all) = self.by_label.get(&**key) else {
                continue;
            };
            visit(&all.any_value);
            if let Some(bucket) = all.by_value.get(&**value) {
                visit(bucket);
            }
        }
    }
}

fn remove_if_empty(buckets: &mut BucketsByValue, key: &str) {
    if buckets.get(key).is_some_and(Vec::is_empty) {
        buckets.remove(key);
    }
}
