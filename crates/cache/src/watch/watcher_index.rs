//! Index of watchers by trigger: finds the watchers that a change may concern without evaluating all filters.
//! Corresponds to upstream's `indexedWatchers`; entry point [`WatcherIndex::collect_events`].
//!
//! Each watcher is registered under one trigger, chosen when it starts: among its requirements, the one that the fewest
//! changes are expected to hit and that the fewest other watchers share. A change looks up the triggers of the old and
//! of the new object. That finds every watcher concerned, because a change can only concern a watcher whose requirement
//! the old or the new object meets. The cost is a few lookups per label of the object, independent of the number of
//! watchers.

use std::collections::BTreeMap;
use std::sync::Arc;

use rhumb_selection::{IndexTerm, InternedString, Interner, SelectorIndex, SlotMap};

use super::WatchQueue;
use super::trigger::{TriggerOptions, TriggerPlacement, WatchTrigger, candidate_placements};
use crate::EventKind;
use crate::object_change::ObjectChange;

/// Maximum number of names of undeclared labels and fields under which watchers are counted: clients choose the label
/// keys, so they must be bounded.
const INDEX_NAMES_MAX: usize = 128;

/// Further names that are always counted on their own.
const FIXED_INDEX_NAMES: [&str; 3] = ["", "metadata.name", "metadata.namespace"];

/// The name under which all further watchers are counted. It is not a valid label or field name.
const OTHER_INDEX_NAMES: &str = "(others)";

rhumb_selection::ids! {
    /// Identifies a watcher in [`WatcherIndex`]; reused after the watcher ends.
    pub(crate) WatcherId,
}

/// An event to be pushed into the queue of a watcher.
pub(crate) type PendingEvent = (WatcherId, Arc<ObjectChange>, EventKind);

/// The watchers of one resource, indexed by namespace and trigger.
#[derive(Debug)]
pub(crate) struct WatcherIndex {
    triggers: TriggerOptions,
    watchers: SlotMap<WatcherId, RegisteredWatcher>,
    /// The texts of all triggers and their namespaces. Those of objects are only looked up.
    interner: Interner,
    /// The watchers of each namespace, and under `None` those of all namespaces.
    by_trigger: SelectorIndex<Option<InternedString>, WatcherId>,
    /// Number of watchers by the name of their trigger. Declared indexes remain when they have no watchers.
    counts_by_index_name: BTreeMap<Box<str>, usize>,
}

/// A watcher in the index.
#[derive(Debug)]
struct RegisteredWatcher {
    queue: Arc<WatchQueue>,
    /// Index of the chosen placement among the candidates of its filter, which are recomputed on removal.
    placement: usize,
    /// Whether it is counted under the name of its trigger, or under `OTHER_INDEX_NAMES`.
    has_own_count: bool,
    /// Sequence of the change it was last evaluated for, so that no change evaluates it twice.
    last_visited_by: Option<u64>,
}

impl WatcherIndex {
    pub(crate) fn new(triggers: TriggerOptions) -> Self {
        let declared = triggers.declared_names();
        WatcherIndex {
            counts_by_index_name: declared.map(|name| (name.into(), 0)).collect(),
            triggers,
            watchers: SlotMap::default(),
            interner: Interner::default(),
            by_trigger: SelectorIndex::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.watchers.len()
    }

    /// Number of watchers by label, field, `metadata.name` or `metadata.namespace`; unindexed ones under the empty
    /// name. Declared indexes are always included.
    pub(crate) fn counts_by_index_name(&self) -> BTreeMap<Box<str>, usize> {
        self.counts_by_index_name.clone()
    }

    pub(crate) fn queues(&self) -> impl Iterator<Item = &Arc<WatchQueue>> {
        self.watchers.iter().map(|(_, watcher)| &watcher.queue)
    }

    pub(crate) fn queue(&self, id: WatcherId) -> Option<&Arc<WatchQueue>> {
        self.watchers.get(id).map(|watcher| &watcher.queue)
    }

    pub(crate) fn register(&mut self, queue: Arc<WatchQueue>) -> WatcherId {
        let placements = candidate_placements(&queue.filter, &self.triggers);
        let choice = self.choose_placement(&placements);
        let mut has_own_count = false;
        if let Some(placement) = placements.get(choice) {
            let name = placement.index_name(&self.triggers.field_names);
            has_own_count = self.may_count_under(name);
            let name = if has_own_count {
                name
            } else {
                OTHER_INDEX_NAMES
            };
            *self.counts_by_index_name.entry(name.into()).or_default() += 1;
        }
        let id = self.watchers.insert(RegisteredWatcher {
            queue,
            placement: choice,
            has_own_count,
            last_visited_by: None,
        });
        if let Some(TriggerPlacement { trigger, namespace }) = placements.get(choice) {
            let interner = &mut self.interner;
            let namespace = namespace.as_ref().map(|name| interner.intern(name));
            let by_trigger = &mut self.by_trigger;
            trigger.for_each_term(interner, |term| {
                by_trigger.insert(&namespace, term, id, false);
            });
        }
        id
    }

    pub(crate) fn unregister(&mut self, id: WatcherId) {
        let Some(watcher) = self.watchers.remove(id) else {
            return;
        };
        let placements = candidate_placements(&watcher.queue.filter, &self.triggers);
        if let Some(placement) = placements.get(watcher.placement) {
            let interner = &mut self.interner;
            let namespace = placement.namespace.as_ref();
            let namespace = namespace.map(|name| interner.intern(name));
            let (trigger, by_trigger) = (&placement.trigger, &mut self.by_trigger);
            trigger.for_each_term(interner, |term| {
                by_trigger.remove(&namespace, term, id);
            });
            let field_names = Arc::clone(&self.triggers.field_names);
            let name = placement.index_name(&field_names);
            self.decrement_count(if watcher.has_own_count {
                name
            } else {
                OTHER_INDEX_NAMES
            });
        }
        if self.watchers.is_empty() {
            (self.watchers, self.interner) = (SlotMap::default(), Interner::default());
        }
    }

    /// Whether watchers are counted under this name, and not under `OTHER_INDEX_NAMES`.
    fn may_count_under(&self, name: &str) -> bool {
        let counts = &self.counts_by_index_name;
        let always = self.triggers.declared.len() + FIXED_INDEX_NAMES.len();
        counts.contains_key(name)
            || FIXED_INDEX_NAMES.contains(&name)
            || counts.len() < INDEX_NAMES_MAX + always
    }

    fn decrement_count(&mut self, name: &str) {
        let is_declared = self.triggers.declared_names().any(|it| it == name);
        if let Some(count) = self.counts_by_index_name.get_mut(name) {
            *count -= 1;
            if *count == 0 && !is_declared {
                self.counts_by_index_name.remove(name);
            }
        }
    }

    /// Adds to `found` an event for every watcher that the change concerns, once each. Returns the number of watchers
    /// whose filter was evaluated.
    pub(crate) fn collect_events(
        &mut self,
        change: &Arc<ObjectChange>,
        found: &mut Vec<PendingEvent>,
    ) -> usize {
        let terms = terms_of_change(
            change,
            &self.triggers.field_names,
            &self.by_trigger,
            &self.interner,
        );
        let namespace = change.key.namespace();
        let namespace = namespace.and_then(|name| self.interner.get(name)).cloned();
        let mut evaluated = 0;
        for partition in [Some(None), namespace.map(Some)].into_iter().flatten() {
            let candidates = self.by_trigger.candidates(partition, terms.iter().copied());
            for id in candidates.map(|candidate| candidate.id) {
                let Some(watcher) = self.watchers.get_mut(id) else {
                    continue;
                };
                if watcher.last_visited_by.replace(change.sequence) == Some(change.sequence) {
                    continue;
                }
                evaluated += 1;
                if let Some(kind) = watcher
                    .queue
                    .filter
                    .classify(change, &self.triggers.field_names)
                {
                    found.push((id, Arc::clone(change), kind));
                }
            }
        }
        evaluated
    }

    /// The placement with the lowest expected number of changes times watchers in the bucket.
    fn choose_placement(&self, placements: &[TriggerPlacement]) -> usize {
        let cost = |placement: &TriggerPlacement| {
            let sharing = placement.watchers_in(&self.by_trigger, &self.interner);
            sharing
                .saturating_add(1)
                .saturating_mul(placement.trigger.cost())
        };
        let is_broad = |placement: &TriggerPlacement| placement.trigger == WatchTrigger::Always;
        let best = placements.iter().enumerate().min_by_key(|(_, placement)| {
            // The trigger that every change hits is never better, however small its bucket.
            (is_broad(placement), cost(placement))
        });
        best.map_or(0, |(index, _)| index)
    }
}

/// The triggers that the old or the new object has, as far as any watcher uses their kind. A term may occur twice.
fn terms_of_change<'i>(
    change: &ObjectChange,
    field_names: &[Arc<str>],
    by_trigger: &SelectorIndex<Option<InternedString>, WatcherId>,
    interner: &'i Interner,
) -> Vec<IndexTerm<'i>> {
    // Enough for most objects without growing.
    let mut terms = Vec::with_capacity(16);
    terms.push(IndexTerm::Any);
    if by_trigger.has_names() {
        terms.extend(interner.get(change.key.name()).map(IndexTerm::Name));
    }
    let (old, new) = (change.old.as_deref(), change.new.entry().map(|new| &**new));
    let old_fields = old.filter(|old| new.is_none_or(|new| old.fields != new.fields));
    for entry in old_fields.into_iter().chain(new) {
        for (index, _) in (0..).zip(field_names) {
            if by_trigger.has_field(index) {
                let value = interner.get(entry.field(usize::from(index)));
                terms.extend(value.map(|value| IndexTerm::Field(index, value)));
            }
        }
    }
    let old_labels = old.filter(|old| new.is_none_or(|new| old.labels != new.labels));
    for entry in old_labels.into_iter().chain(new) {
        if by_trigger.has_labels() {
            let labels = entry.labels().iter();
            let resolved = interner.resolve_labels(labels.map(|(key, value)| (key, value)));
            terms.extend(resolved.flat_map(IndexTerm::of_resolved));
        }
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::super::trigger::LABEL_VALUES_MAX;
    use super::super::{WatchFilter, WatchScope};
    use super::*;
    use crate::index::IndexedAttribute;
    use rhumb_meta::Revision;

    fn filter(scope: WatchScope, labels: &str, fields: &str) -> WatchFilter {
        WatchFilter {
            scope,
            labels: labels.parse().expect(labels),
            fields: fields.parse().expect(fields),
            after: Revision::ZERO,
        }
    }

    fn empty_index(by_label: bool) -> WatcherIndex {
        WatcherIndex::new(TriggerOptions {
            field_names: ["spec.nodeName".into(), "status.phase".into()].into(),
            declared: vec![IndexedAttribute::Field(0)],
            by_label,
        })
    }

    fn chosen_placement(empty: &WatcherIndex, filter: &WatchFilter) -> TriggerPlacement {
        let mut placements = candidate_placements(filter, &empty.triggers);
        let choice = empty.choose_placement(&placements);
        placements.swap_remove(choice)
    }

    fn check_placement(
        scope: WatchScope,
        labels: &str,
        fields: &str,
        trigger: WatchTrigger,
        namespace: Option<&str>,
    ) {
        let expect = TriggerPlacement {
            trigger,
            namespace: namespace.map(Into::into),
        };
        let placement = chosen_placement(&empty_index(true), &filter(scope, labels, fields));
        assert_eq!(placement, expect, "{labels} {fields}");
    }

    fn label(key: &str, values: &[&str]) -> WatchTrigger {
        let values = values.iter().map(|&value| value.into());
        WatchTrigger::Label(key.into(), values.collect())
    }

    #[test]
    fn a_watcher_is_placed_at_its_most_selective_trigger() {
        let team = || WatchScope::Namespace("team".into());
        let all = || WatchScope::All;
        check_placement(all(), "", "", WatchTrigger::Always, None);
        check_placement(team(), "", "", WatchTrigger::Always, Some("team"));
        let negative = "a!=b,!c,d notin (e)";
        check_placement(
            team(),
            negative,
            "status.phase!=x",
            WatchTrigger::Always,
            Some("team"),
        );
        check_placement(
            team(),
            "a!=b,c",
            "",
            WatchTrigger::LabelKey("c".into()),
            Some("team"),
        );
        check_placement(all(), "a>3", "", WatchTrigger::LabelKey("a".into()), None);
        check_placement(all(), "a in (x,y),b=z,c", "", label("b", &["z"]), None);
        check_placement(all(), "a in (y,x,y)", "", label("a", &["x", "y"]), None);
        let empty_phase = WatchTrigger::Field(1, "".into());
        check_placement(all(), "a", "status.phase=", empty_phase, None);
        check_placement(all(), "a=b", "other=x", label("a", &["b"]), None);
        check_placement(
            all(),
            "a=b",
            "status.phase=x,metadata.name=n",
            WatchTrigger::Name("n".into()),
            None,
        );
        check_placement(
            all(),
            "",
            "metadata.namespace=n",
            WatchTrigger::Always,
            Some("n"),
        );
        check_placement(all(), "", "metadata.namespace=", WatchTrigger::Always, None);
        let values: Vec<String> = (0..=LABEL_VALUES_MAX).map(|n| n.to_string()).collect();
        let many = format!("a in ({})", values.join(","));
        check_placement(all(), &many, "", WatchTrigger::LabelKey("a".into()), None);
        let object = WatchScope::Object {
            namespace: Some("team".into()),
            name: "n".into(),
        };
        check_placement(
            object,
            "a=b",
            "",
            WatchTrigger::Name("n".into()),
            Some("team"),
        );
    }

    fn register(index: &mut WatcherIndex, filter: WatchFilter) -> WatcherId {
        index.register(Arc::new(WatchQueue::new(filter, 0, true)))
    }

    #[test]
    fn large_buckets_are_avoided() {
        let mut index = empty_index(true);
        for job in 0..100 {
            let selector = format!("job={job},team=a");
            register(&mut index, filter(WatchScope::All, &selector, ""));
        }
        let team = label("team", &["a"]);
        let team = TriggerPlacement {
            trigger: team,
            namespace: None,
        };
        let bucket_len = team.watchers_in(&index.by_trigger, &index.interner);
        assert!(bucket_len <= 1, "{bucket_len} watchers share a bucket");
    }

    #[test]
    fn watchers_are_counted_by_index_name_and_removed_completely() {
        let mut index = empty_index(true);
        let team = || WatchScope::Namespace("team".into());
        let filters = [
            filter(team(), "a=b", ""),
            filter(WatchScope::All, "a in (x,y)", ""),
            filter(team(), "", "spec.nodeName=n"),
            filter(team(), "", ""),
            filter(team(), "c", "metadata.name=n"),
            filter(WatchScope::All, "", ""),
            filter(WatchScope::All, "c", ""),
        ];
        let ids: Vec<_> = filters
            .into_iter()
            .map(|filter| register(&mut index, filter))
            .collect();
        let counts: Vec<_> = index.counts_by_index_name().into_iter().collect();
        let expect = [
            ("", 1),
            ("a", 2),
            ("c", 1),
            ("metadata.name", 1),
            ("metadata.namespace", 1),
            ("spec.nodeName", 1),
        ];
        assert_eq!(counts, expect.map(|(name, count)| (name.into(), count)));
        ids.into_iter().for_each(|id| index.unregister(id));
        let counts: Vec<_> = index.counts_by_index_name().into_iter().collect();
        assert_eq!(counts, [("spec.nodeName".into(), 0)]);
        assert!(index.by_trigger.is_empty() && index.interner.is_empty());
        assert_eq!(index.len(), 0);
    }

    #[test]
    fn large_buckets_never_move_watchers_to_the_always_trigger() {
        let mut index = empty_index(true);
        for _ in 0..2_000 {
            register(&mut index, filter(WatchScope::All, "app=web", ""));
        }
        let counts: Vec<_> = index.counts_by_index_name().into_iter().collect();
        assert_eq!(counts, [("app".into(), 2_000), ("spec.nodeName".into(), 0)]);
    }

    #[test]
    fn the_number_of_undeclared_index_names_is_bounded() {
        let mut index = empty_index(true);
        let unindexed = register(&mut index, filter(WatchScope::All, "", ""));
        let mut ids: Vec<_> = (0..300)
            .map(|number| {
                register(
                    &mut index,
                    filter(WatchScope::All, &format!("key-{number}=x"), ""),
                )
            })
            .collect();
        let (limit, fixed) = (INDEX_NAMES_MAX, FIXED_INDEX_NAMES.len());
        assert!(index.counts_by_index_name().len() <= limit + fixed + 2);
        let named = register(&mut index, filter(WatchScope::All, "", "metadata.name=n"));
        let on_node = filter(WatchScope::All, "", "spec.nodeName=n");
        ids.extend([unindexed, named, register(&mut index, on_node)]);
        let counts = index.counts_by_index_name();
        assert_eq!(counts.values().sum::<usize>(), 303);
        for name in ["", "metadata.name", "spec.nodeName"] {
            assert_eq!(counts.get(name), Some(&1), "{name:?}");
        }
        ids.into_iter().for_each(|id| index.unregister(id));
        assert_eq!(index.counts_by_index_name().len(), 1);
    }

    #[test]
    fn without_labels_watchers_are_indexed_by_names_and_declared_fields() {
        let placed = |labels: &str, fields: &str| {
            let filter = filter(WatchScope::All, labels, fields);
            chosen_placement(&empty_index(false), &filter).trigger
        };
        let node = WatchTrigger::Field(0, "n".into());
        assert_eq!(placed("a=b", "spec.nodeName=n"), node);
        let name = WatchTrigger::Name("n".into());
        assert_eq!(placed("a=b", "metadata.name=n"), name);
        assert_eq!(placed("a=b", ""), WatchTrigger::Always);
        assert_eq!(placed("", "status.phase=Running"), WatchTrigger::Always);
    }
}
