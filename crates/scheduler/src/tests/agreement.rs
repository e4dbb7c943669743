//! The scheduler and the oracle agree, on thousands of random clusters.

use serde_json::Value;

use super::oracle::{self, Refusal, Scores};
use super::random::{Dice, Extent, World, seeds};
use crate::cluster::{Cluster, NodeId, PodSlot};
use crate::cycle::{Enabled, Profile};

/// Only inter-pod affinity.
fn affinity() -> Profile {
    let mut profile = Profile::usual("default-scheduler");
    let plugins = &mut profile.plugins;
    plugins.retain(|enabled| enabled.plugin.name() == "InterPodAffinity");
    profile
}

/// All plugins with their usual settings.
pub(crate) fn usual() -> Profile {
    Profile::usual("default-scheduler")
}

#[test]
fn the_oracle_agrees_about_affinity() {
    for seed in seeds(2000) {
        let profile = affinity();
        let mut dice = Dice::new(seed);
        let world = World::random(&mut dice, Extent::Affinity);
        agree(&profile, &world, &world.build(), &format!("seed {seed}"));
    }
}

#[test]
fn the_oracle_agrees_about_everything() {
    for seed in seeds(2000) {
        let profile = usual();
        let mut dice = Dice::new(seed);
        let world = World::random(&mut dice, Extent::Everything);
        agree(&profile, &world, &world.build(), &format!("seed {seed}"));
    }
}

/// About every pod that waits, on every node.
pub(crate) fn agree(profile: &Profile, world: &World, cluster: &Cluster, when: &str) {
    for (uid, pod) in world.pending() {
        let Some(id) = cluster.pods().find(uid) else {
            panic!("{when}: {uid} is unknown");
        };
        let slot = cluster.pods().get(id).expect("a pod");
        let about = format!("{when}, {uid}");
        let possible = agree_on_refusals(profile, world, cluster, (pod, slot), &about);
        agree_on_scores(profile, world, cluster, (pod, slot), &possible, &about);
    }
}

/// The nodes that are possible.
fn agree_on_refusals<'w>(
    profile: &Profile,
    world: &'w World,
    cluster: &Cluster,
    (pod, slot): (&Value, &PodSlot),
    about: &str,
) -> Vec<(NodeId, &'w Value)> {
    let checks = profile.checks(slot, cluster);
    let mut possible = Vec::new();
    for (name, node) in &world.nodes {
        let id = cluster.nodes().find(name).expect("a node");
        let mut expected = oracle::refusals(world, pod, node);
        expected.retain(|(plugin, _)| has(profile, plugin));
        let found: Vec<Refusal> = match &checks {
            Ok(checks) => {
                let objections = checks.objections(id);
                let first = checks.check(id).err();
                assert_eq!(first.as_ref(), objections.first(), "{about} on {name}");
                let objections = objections.into_iter();
                let plugin = |index: usize| profile.plugins[index].plugin.name();
                objections
                    .map(|objection| (plugin(objection.plugin), objection.refusal.is_resolvable))
                    .collect()
            }
            Err((plugin, _)) => vec![(profile.plugins[*plugin].plugin.name(), false)],
        };
        assert_eq!(found, expected, "{about} on {name}");
        if expected.is_empty() {
            possible.push((id, node));
        }
    }
    possible
}

fn has(profile: &Profile, plugin: &str) -> bool {
    let mut plugins = profile.plugins.iter();
    plugins.any(|enabled| enabled.plugin.name() == plugin)
}

fn agree_on_scores(
    profile: &Profile,
    world: &World,
    cluster: &Cluster,
    (pod, slot): (&Value, &PodSlot),
    possible: &[(NodeId, &Value)],
    about: &str,
) {
    let (ids, nodes): (Vec<NodeId>, Vec<&Value>) = possible.iter().copied().unzip();
    let mut expected = oracle::scores(world, pod, &nodes);
    expected.retain(|scores| has(profile, scores.plugin));
    let mut sums = vec![0; ids.len()];
    for expected in &expected {
        let mut enabled = profile.plugins.iter();
        let enabled = enabled.find(|enabled| enabled.plugin.name() == expected.plugin);
        let enabled = enabled.expect("the plugin in the profile");
        let found = rate(enabled, cluster, slot, &ids, expected.plugin);
        assert_eq!(found, *expected, "{about}");
        for (sum, score) in sums.iter_mut().zip(&expected.normal) {
            *sum += score * enabled.weight;
        }
    }
    assert_eq!(profile.scores(slot, cluster, &ids), sums, "{about}");
}

fn rate(
    enabled: &Enabled,
    cluster: &Cluster,
    pod: &PodSlot,
    nodes: &[NodeId],
    plugin: &'static str,
) -> Scores {
    let (mut raw, mut normal) = (vec![0; nodes.len()], vec![0; nodes.len()]);
    if let Some(score) = enabled.plugin.score(pod, cluster, nodes) {
        raw = nodes.iter().map(|node| score.score(*node)).collect();
        normal.clone_from(&raw);
        score.normalise(nodes, &mut normal);
    }
    Scores {
        plugin,
        raw,
        normal,
    }
}
