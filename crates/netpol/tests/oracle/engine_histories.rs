//! Compares the engine with the reference evaluator through random histories, and checks its change tracking.

use rhumb_netpol::{EngineScope, NamespacedName, PolicyEngine};

use crate::compare_verdicts::{compare, summaries};
use crate::event_script::{
    EventScript, ObjectEvent, ObjectStore, ScriptObjectKind, apply_event, engine_after_events,
    kind_of, name_of,
};
use crate::generator::random_history;
use crate::reference_evaluator::ReferenceEvaluator;
use crate::seeds::check_seeds;
use rhumb_seeded_rng::SeededRng;

fn cluster_engine(script: &EventScript, events: &[ObjectEvent]) -> PolicyEngine {
    engine_after_events(EngineScope::Cluster, &script.capabilities, events)
}

#[test]
fn the_engine_agrees_with_the_oracle_through_all_changes() {
    let check = |script: &EventScript| {
        let mut store = ObjectStore::default();
        let mut engine = cluster_engine(script, &[]);
        for (index, event) in script.events.iter().enumerate() {
            store.apply(event);
            apply_event(&mut engine, event);
            if index % 5 == 4 {
                compare(
                    &engine,
                    &ReferenceEvaluator::new(&store, &script.capabilities),
                )
                .map_err(|problem| format!("after event {index}: {problem}"))?;
            }
        }
        compare(
            &engine,
            &ReferenceEvaluator::new(&store, &script.capabilities),
        )
    };
    check_seeds(60, |rng| random_history(rng, 50), check);
}

#[test]
fn an_engine_after_many_events_equals_a_new_one() {
    let check = |script: &EventScript| {
        let old = cluster_engine(script, &script.events);
        let store = ObjectStore::of(&script.events);
        let mut events: Vec<ObjectEvent> = store.objects().cloned().map(ObjectEvent::Set).collect();
        SeededRng::new(events.len() as u64).shuffle(&mut events);
        let new = cluster_engine(script, &events);
        if summaries(&old) != summaries(&new) {
            return Err(format!(
                "{:#?} should be {:#?}",
                summaries(&old),
                summaries(&new)
            ));
        }
        let oracle = ReferenceEvaluator::new(&store, &script.capabilities);
        compare(&old, &oracle)?;
        compare(&new, &oracle)
    };
    check_seeds(30, |rng| random_history(rng, 300), check);
}

/// Checks that every changed summary is reported, with `at_once` events between two queries.
fn check_changed(script: &EventScript, at_once: usize) -> Result<(), String> {
    let mut engine = cluster_engine(script, &[]);
    let mut before = summaries(&engine);
    for events in script.events.chunks(at_once) {
        events
            .iter()
            .for_each(|event| apply_event(&mut engine, event));
        let changed = engine.take_changed_policies();
        let after = summaries(&engine);
        let names = before.keys().chain(after.keys());
        for name in names.filter(|name| before.get(name) != after.get(name)) {
            if !changed.contains(name) {
                return Err(format!(
                    "{name} changed by {events:?}, but only these are reported: {changed:?}"
                ));
            }
        }
        before = after;
    }
    Ok(())
}

#[test]
fn every_affected_policy_is_marked_changed() {
    let check = |script: &EventScript| {
        check_changed(script, 1)?;
        check_changed(script, 6)
    };
    check_seeds(120, |rng| random_history(rng, 80), check);
}

#[test]
fn repeated_events_mark_no_policy_changed() {
    let check = |script: &EventScript| {
        let mut engine = cluster_engine(script, &script.events);
        engine.take_changed_policies();
        let store = ObjectStore::of(&script.events);
        for object in store.objects() {
            apply_event(&mut engine, &ObjectEvent::Set(object.clone()));
        }
        apply_event(
            &mut engine,
            &ObjectEvent::Remove(ScriptObjectKind::Pod, NamespacedName::new("a", "nobody")),
        );
        let changed = engine.take_changed_policies();
        match changed.is_empty() {
            true => Ok(()),
            false => Err(format!("reported as changed: {changed:?}")),
        }
    };
    check_seeds(150, |rng| random_history(rng, 30), check);
}

#[test]
fn the_engine_is_empty_after_removing_all_objects() {
    let check = |script: &EventScript| {
        let mut engine = cluster_engine(script, &script.events);
        let store = ObjectStore::of(&script.events);
        for object in store.objects() {
            apply_event(
                &mut engine,
                &ObjectEvent::Remove(kind_of(object), name_of(object)),
            );
        }
        let left = engine.pods().count() + engine.policies().count() + engine.namespaces().count();
        let empty = ObjectStore::default();
        compare(
            &engine,
            &ReferenceEvaluator::new(&empty, &script.capabilities),
        )?;
        match left {
            0 => Ok(()),
            _ => Err(format!("{left} objects are left")),
        }
    };
    check_seeds(100, |rng| random_history(rng, 30), check);
}
