//! No pod waits for nothing: whatever makes it possible somewhere, a plugin that refused it says that this may help.

use std::collections::{BTreeMap, BTreeSet};

use super::changes::Run;
use crate::cluster::PodId;
use crate::cycle::Profile;
use crate::tests::agreement;
use crate::tests::random::{Extent, seeds};

/// What a queue remembers of a pod that waits: who refused it when it was tried last. `None` if nobody did.
type Memory = BTreeMap<String, Option<BTreeSet<usize>>>;

#[test]
fn pods_that_can_go_somewhere_now_are_told() {
    let mut told = 0;
    for seed in seeds(100) {
        let extent = [Extent::Affinity, Extent::Everything][seed as usize % 2];
        let (mut run, profile) = (Run::new(seed, extent), agreement::usual());
        let mut memory = Memory::new();
        for step in 0..120 {
            run.change();
            let mut now = Memory::new();
            for uid in run.pending() {
                let refusing = refusing(&run, &profile, id(&run, &uid));
                let after = match memory.remove(&uid).flatten() {
                    Some(plugins) if !is_told(&run, &profile, &uid, &plugins) => {
                        assert!(
                            refusing.is_some(),
                            "seed {seed}, step {step}: {uid} was refused by {plugins:?} until {:?}",
                            run.happened
                        );
                        Some(plugins)
                    }
                    before => {
                        told += usize::from(before.is_some() && refusing.is_none());
                        refusing
                    }
                };
                now.insert(uid, after);
            }
            memory = now;
        }
    }
    assert!(told > 40, "only {told} pods became possible");
}

fn id(run: &Run, uid: &str) -> PodId {
    run.cluster.pods().find(uid).expect("a pod")
}

/// Those that a queue would remember: on each node the first that objects. `None` if nobody does on some node.
fn refusing(run: &Run, profile: &Profile, pod: PodId) -> Option<BTreeSet<usize>> {
    let cluster = &run.cluster;
    let slot = cluster.pods().get(pod).expect("a pod");
    let checks = match profile.checks(slot, cluster) {
        Ok(checks) => checks,
        Err((plugin, _)) => return Some([plugin].into()),
    };
    let nodes = cluster.nodes().described();
    nodes
        .map(|(node, _)| Some(checks.check(node).err()?.plugin))
        .collect()
}

/// A pod that nobody refused, since there were no nodes, is told of everything.
fn is_told(run: &Run, profile: &Profile, uid: &str, plugins: &BTreeSet<usize>) -> bool {
    if plugins.is_empty() {
        return true;
    }
    let pod = id(run, uid);
    let slot = run.cluster.pods().get(pod).expect("a pod");
    let events = run
        .happened
        .iter()
        .filter(|happened| happened.concerns(pod));
    let mut events = events.map(super::happened::Happened::event);
    events.any(|event| {
        let mut plugins = plugins.iter().map(|index| &profile.plugins[*index].plugin);
        plugins.any(|plugin| plugin.may_help(&event, slot, &run.cluster))
    })
}
