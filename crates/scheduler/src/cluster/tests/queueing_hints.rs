//! Queueing hints are complete: when a change makes a pending pod schedulable, a plugin that rejected the pod returns a
//! hint to requeue it.

use std::collections::{BTreeMap, BTreeSet};

use super::random_changes::RandomClusterHarness;
use crate::cluster::PodId;
use crate::cycle::Profile;
use crate::tests::oracle_agreement;
use crate::tests::random::{PodFeatures, seeds};

/// The plugins that rejected each pending pod in its last attempt; `None` if it was schedulable.
type RejectingPluginsByPod = BTreeMap<String, Option<BTreeSet<usize>>>;

#[test]
fn hints_requeue_every_pod_that_became_schedulable() {
    let mut requeued = 0;
    for seed in seeds(100) {
        let extent = [PodFeatures::InterPodAffinityOnly, PodFeatures::All][seed as usize % 2];
        let (mut run, profile) = (
            RandomClusterHarness::new(seed, extent),
            oracle_agreement::default_profile(),
        );
        let mut memory = RejectingPluginsByPod::new();
        for step in 0..120 {
            run.apply_random_change();
            let mut now = RejectingPluginsByPod::new();
            for uid in run.pending() {
                let refusing = rejecting_plugins(&run, &profile, pod_id(&run, &uid));
                let after = match memory.remove(&uid).flatten() {
                    Some(plugins) if !any_hint_queues(&run, &profile, &uid, &plugins) => {
                        assert!(
                            refusing.is_some(),
                            "seed {seed}, step {step}: {uid} was rejected by {plugins:?} until {:?}",
                            run.last_events
                        );
                        Some(plugins)
                    }
                    old => {
                        requeued += usize::from(old.is_some() && refusing.is_none());
                        refusing
                    }
                };
                now.insert(uid, after);
            }
            memory = now;
        }
    }
    assert!(requeued > 40, "only {requeued} pods became schedulable");
}

fn pod_id(run: &RandomClusterHarness, uid: &str) -> PodId {
    run.cluster.pods().find(uid).expect("pod is known")
}

/// The first plugin that rejects the pod on each node; `None` if the pod fits on some node.
fn rejecting_plugins(
    run: &RandomClusterHarness,
    profile: &Profile,
    pod: PodId,
) -> Option<BTreeSet<usize>> {
    let cluster = &run.cluster;
    let slot = cluster.pods().get(pod).expect("pod is known");
    let checks = match profile.build_filters(slot, cluster) {
        Ok(checks) => checks,
        Err((plugin, _)) => return Some([plugin].into()),
    };
    let nodes = cluster.nodes().known_nodes();
    nodes
        .map(|(node, _)| Some(checks.check(node).err()?.plugin))
        .collect()
}

/// Whether a plugin that rejected the pod returns a hint for one of the last events. A pod that no plugin rejected,
/// since there were no nodes, is requeued by any event.
fn any_hint_queues(
    run: &RandomClusterHarness,
    profile: &Profile,
    uid: &str,
    plugins: &BTreeSet<usize>,
) -> bool {
    if plugins.is_empty() {
        return true;
    }
    let pod = pod_id(run, uid);
    let slot = run.cluster.pods().get(pod).expect("pod is known");
    let events = run
        .last_events
        .iter()
        .filter(|happened| happened.concerns(pod));
    let mut events = events.map(super::owned_events::OwnedClusterEvent::as_event);
    events.any(|event| {
        let mut plugins = plugins.iter().map(|index| &profile.plugins[*index].plugin);
        plugins.any(|plugin| plugin.queueing_hint(&event, slot, &run.cluster))
    })
}
