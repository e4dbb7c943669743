//! Compares the plugins with the oracle on thousands of random clusters.

use serde_json::Value;

use super::oracle::{self, OracleRejection, Scores};
use super::random::{ClusterObjects, PodFeatures, SeededRng, seeds};
use crate::cluster::{ClusterState, NodeId, PodInfo};
use crate::cycle::{EnabledPlugin, Profile};

/// A profile with `InterPodAffinity` only.
fn affinity_profile() -> Profile {
    let mut profile = Profile::with_default_plugins("default-scheduler");
    let plugins = &mut profile.plugins;
    plugins.retain(|enabled| enabled.plugin.name() == "InterPodAffinity");
    profile
}

/// All plugins with their default arguments.
pub(crate) fn default_profile() -> Profile {
    Profile::with_default_plugins("default-scheduler")
}

#[test]
fn inter_pod_affinity_agrees_with_the_oracle() {
    for seed in seeds(2000) {
        let profile = affinity_profile();
        let mut rng = SeededRng::new(seed);
        let objects = ClusterObjects::random(&mut rng, PodFeatures::InterPodAffinityOnly);
        assert_agreement(
            &profile,
            &objects,
            &objects.build_cluster(),
            &format!("seed {seed}"),
        );
    }
}

#[test]
fn all_plugins_agree_with_the_oracle() {
    for seed in seeds(2000) {
        let profile = default_profile();
        let mut rng = SeededRng::new(seed);
        let objects = ClusterObjects::random(&mut rng, PodFeatures::All);
        assert_agreement(
            &profile,
            &objects,
            &objects.build_cluster(),
            &format!("seed {seed}"),
        );
    }
}

/// Asserts that filters and scores agree for every pending pod on every node.
pub(crate) fn assert_agreement(
    profile: &Profile,
    objects: &ClusterObjects,
    cluster: &ClusterState,
    when: &str,
) {
    for (uid, pod) in objects.pending() {
        let Some(id) = cluster.pods().find(uid) else {
            panic!("{when}: pod {uid} is not in the cluster");
        };
        let slot = cluster.pods().get(id).expect("the pod exists");
        let about = format!("{when}, {uid}");
        let possible = assert_same_rejections(profile, objects, cluster, (pod, slot), &about);
        assert_same_scores(profile, objects, cluster, (pod, slot), &possible, &about);
    }
}

/// Compares filter results; returns the feasible nodes.
fn assert_same_rejections<'w>(
    profile: &Profile,
    objects: &'w ClusterObjects,
    cluster: &ClusterState,
    (pod, slot): (&Value, &PodInfo),
    about: &str,
) -> Vec<(NodeId, &'w Value)> {
    let checks = profile.build_filters(slot, cluster);
    let mut possible = Vec::new();
    for (name, node) in &objects.nodes {
        let id = cluster.nodes().find(name).expect("the node exists");
        let mut expected = oracle::refusals(objects, pod, node);
        expected.retain(|(plugin, _)| has_plugin(profile, plugin));
        let found: Vec<OracleRejection> = match &checks {
            Ok(checks) => {
                let rejections = checks.rejections(id);
                let first = checks.check(id).err();
                assert_eq!(first.as_ref(), rejections.first(), "{about} on {name}");
                let rejections = rejections.into_iter();
                let plugin = |index: usize| profile.plugins[index].plugin.name();
                rejections
                    .map(|rejection| (plugin(rejection.plugin), rejection.rejection.is_resolvable))
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

fn has_plugin(profile: &Profile, plugin: &str) -> bool {
    let mut plugins = profile.plugins.iter();
    plugins.any(|enabled| enabled.plugin.name() == plugin)
}

fn assert_same_scores(
    profile: &Profile,
    objects: &ClusterObjects,
    cluster: &ClusterState,
    (pod, slot): (&Value, &PodInfo),
    possible: &[(NodeId, &Value)],
    about: &str,
) {
    let (ids, nodes): (Vec<NodeId>, Vec<&Value>) = possible.iter().copied().unzip();
    let mut expected = oracle::scores(objects, pod, &nodes);
    expected.retain(|scores| has_plugin(profile, scores.plugin));
    let mut sums = vec![0; ids.len()];
    for expected in &expected {
        let mut enabled = profile.plugins.iter();
        let enabled = enabled.find(|enabled| enabled.plugin.name() == expected.plugin);
        let enabled = enabled.expect("the profile has the plugin");
        let found = plugin_scores(enabled, cluster, slot, &ids, expected.plugin);
        assert_eq!(found, *expected, "{about}");
        for (sum, score) in sums.iter_mut().zip(&expected.normal) {
            *sum += score * enabled.weight;
        }
    }
    assert_eq!(profile.total_scores(slot, cluster, &ids), sums, "{about}");
}

fn plugin_scores(
    enabled: &EnabledPlugin,
    cluster: &ClusterState,
    pod: &PodInfo,
    nodes: &[NodeId],
    plugin: &'static str,
) -> Scores {
    let (mut raw, mut normal) = (vec![0; nodes.len()], vec![0; nodes.len()]);
    if let Some(score) = enabled.plugin.pre_score(pod, cluster, nodes) {
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
