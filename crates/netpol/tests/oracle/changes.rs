//! An engine that follows a cluster through all that happens to it.

use rhumb_netpol::{Engine, Name, Scope};

use crate::answers::{compare, summaries};
use crate::dice::Dice;
use crate::evaluator::Oracle;
use crate::generator::history;
use crate::script::{Event, Kind, Script, World, engine, kind_of, name_of, tell};
use crate::seeds::try_seeds;

fn cluster_engine(script: &Script, events: &[Event]) -> Engine {
    engine(Scope::Cluster, &script.knowledge, events)
}

#[test]
fn the_engine_agrees_through_all_changes() {
    let check = |script: &Script| {
        let mut world = World::default();
        let mut engine = cluster_engine(script, &[]);
        for (index, event) in script.events.iter().enumerate() {
            world.apply(event);
            tell(&mut engine, event);
            if index % 5 == 4 {
                compare(&engine, &Oracle::new(&world, &script.knowledge))
                    .map_err(|problem| format!("after event {index}: {problem}"))?;
            }
        }
        compare(&engine, &Oracle::new(&world, &script.knowledge))
    };
    try_seeds(60, |dice| history(dice, 50), check);
}

#[test]
fn an_engine_that_saw_a_long_life_answers_like_a_new_one() {
    let check = |script: &Script| {
        let old = cluster_engine(script, &script.events);
        let world = World::of(&script.events);
        let mut events: Vec<Event> = world.objects().cloned().map(Event::Set).collect();
        Dice::new(events.len() as u64).shuffle(&mut events);
        let new = cluster_engine(script, &events);
        if summaries(&old) != summaries(&new) {
            return Err(format!(
                "{:#?} should be {:#?}",
                summaries(&old),
                summaries(&new)
            ));
        }
        let oracle = Oracle::new(&world, &script.knowledge);
        compare(&old, &oracle)?;
        compare(&new, &oracle)
    };
    try_seeds(30, |dice| history(dice, 300), check);
}

/// Asks which policies are touched after so many events at a time.
fn check_touched(script: &Script, at_once: usize) -> Result<(), String> {
    let mut engine = cluster_engine(script, &[]);
    let mut before = summaries(&engine);
    for events in script.events.chunks(at_once) {
        events.iter().for_each(|event| tell(&mut engine, event));
        let touched = engine.take_touched();
        let after = summaries(&engine);
        let names = before.keys().chain(after.keys());
        for name in names.filter(|name| before.get(name) != after.get(name)) {
            if !touched.contains(name) {
                return Err(format!(
                    "{name} changed by {events:?}, but only these are touched: {touched:?}"
                ));
            }
        }
        before = after;
    }
    Ok(())
}

#[test]
fn every_policy_of_which_something_changed_is_touched() {
    let check = |script: &Script| {
        check_touched(script, 1)?;
        check_touched(script, 6)
    };
    try_seeds(120, |dice| history(dice, 80), check);
}

#[test]
fn what_is_said_again_touches_nothing() {
    let check = |script: &Script| {
        let mut engine = cluster_engine(script, &script.events);
        engine.take_touched();
        let world = World::of(&script.events);
        for object in world.objects() {
            tell(&mut engine, &Event::Set(object.clone()));
        }
        tell(
            &mut engine,
            &Event::Remove(Kind::Pod, Name::new("a", "nobody")),
        );
        let touched = engine.take_touched();
        match touched.is_empty() {
            true => Ok(()),
            false => Err(format!("touched: {touched:?}")),
        }
    };
    try_seeds(150, |dice| history(dice, 30), check);
}

#[test]
fn nothing_is_known_when_all_is_gone() {
    let check = |script: &Script| {
        let mut engine = cluster_engine(script, &script.events);
        let world = World::of(&script.events);
        for object in world.objects() {
            tell(
                &mut engine,
                &Event::Remove(kind_of(object), name_of(object)),
            );
        }
        let left = engine.pods().count() + engine.policies().count() + engine.namespaces().count();
        let empty = World::default();
        compare(&engine, &Oracle::new(&empty, &script.knowledge))?;
        match left {
            0 => Ok(()),
            _ => Err(format!("{left} objects are left")),
        }
    };
    try_seeds(100, |dice| history(dice, 30), check);
}
