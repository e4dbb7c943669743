//! Clusters that are there at once.

use rhumb_netpol::Scope;

use crate::answers::compare;
use crate::dice::Dice;
use crate::evaluator::Oracle;
use crate::generator::cluster;
use crate::script::{Script, World, engine};
use crate::seeds::try_seeds;

fn check(script: &Script) -> Result<(), String> {
    let world = World::of(&script.events);
    let engine = engine(Scope::Cluster, &script.knowledge, &script.events);
    compare(&engine, &Oracle::new(&world, &script.knowledge))
}

#[test]
fn the_engine_agrees_on_small_clusters() {
    let make = |dice: &mut Dice| {
        let (pods, policies) = (dice.between(1, 4), dice.between(1, 4));
        cluster(dice, pods, policies)
    };
    try_seeds(2500, make, check);
}

#[test]
fn the_engine_agrees_on_larger_clusters() {
    try_seeds(15, |dice| cluster(dice, 24, 12), check);
}
