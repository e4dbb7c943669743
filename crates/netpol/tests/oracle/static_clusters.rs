//! Compares the engine with the reference evaluator on static random clusters.

use rhumb_netpol::EngineScope;

use crate::compare_verdicts::compare;
use crate::event_script::{EventScript, ObjectStore, engine_after_events};
use crate::generator::random_cluster;
use crate::reference_evaluator::ReferenceEvaluator;
use crate::seeds::check_seeds;
use rhumb_seeded_rng::SeededRng;

fn check(script: &EventScript) -> Result<(), String> {
    let store = ObjectStore::of(&script.events);
    let engine = engine_after_events(EngineScope::Cluster, &script.capabilities, &script.events);
    compare(
        &engine,
        &ReferenceEvaluator::new(&store, &script.capabilities),
    )
}

#[test]
fn the_engine_agrees_with_the_oracle_on_small_clusters() {
    let make = |rng: &mut SeededRng| {
        let (pods, policies) = (rng.between(1, 4), rng.between(1, 4));
        random_cluster(rng, pods, policies)
    };
    check_seeds(2500, make, check);
}

#[test]
fn the_engine_agrees_with_the_oracle_on_larger_clusters() {
    check_seeds(15, |rng| random_cluster(rng, 24, 12), check);
}
