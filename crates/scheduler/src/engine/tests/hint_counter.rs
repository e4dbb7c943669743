//! Wraps plugins to count the calls of `queueing_hint`, and checks that `is_event_relevant` agrees with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cluster::{ClusterState, NodeId, PodInfo};
use crate::cycle::Profile;
use crate::plugins::{ClusterEvent, NodeScorer, Plugin, PreFilterRejection, PreFilterResult};

/// The number of calls of `queueing_hint` on all plugins.
#[derive(Clone, Default)]
pub(super) struct HintCallCounter(Arc<AtomicUsize>);

impl HintCallCounter {
    /// Returns the number of calls and resets it.
    pub(super) fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

struct HintCountingPlugin {
    plugin: Box<dyn Plugin>,
    calls: HintCallCounter,
}

pub(super) fn count_hint_calls(profile: &mut Profile, calls: &HintCallCounter) {
    let plugins = std::mem::take(&mut profile.plugins).into_iter();
    let counted = plugins.map(|mut enabled| {
        enabled.plugin = Box::new(HintCountingPlugin {
            plugin: enabled.plugin,
            calls: calls.clone(),
        });
        enabled
    });
    profile.plugins = counted.collect();
}

impl Plugin for HintCountingPlugin {
    fn name(&self) -> &'static str {
        self.plugin.name()
    }

    fn pre_filter<'c>(
        &'c self,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
    ) -> Result<PreFilterResult<'c>, PreFilterRejection> {
        self.plugin.pre_filter(pod, cluster)
    }

    fn pre_score<'c>(
        &'c self,
        pod: &'c PodInfo,
        cluster: &'c ClusterState,
        nodes: &[NodeId],
    ) -> Option<Box<dyn NodeScorer + 'c>> {
        self.plugin.pre_score(pod, cluster, nodes)
    }

    fn topology_keys(&self) -> Vec<&str> {
        self.plugin.topology_keys()
    }

    fn queueing_hint(
        &self,
        event: &ClusterEvent<'_>,
        pod: &PodInfo,
        cluster: &ClusterState,
    ) -> bool {
        self.calls.0.fetch_add(1, Ordering::Relaxed);
        self.plugin.queueing_hint(event, pod, cluster)
    }

    /// An event that is not relevant must yield no hint for any pending pod.
    fn is_event_relevant(&self, event: &ClusterEvent<'_>, cluster: &ClusterState) -> bool {
        let some = self.plugin.is_event_relevant(event, cluster);
        if !some {
            for (id, slot) in cluster.pods().iter() {
                assert!(
                    slot.node_id().is_some() || !self.plugin.queueing_hint(event, slot, cluster),
                    "{} contradicts itself about {id:?}: {event:?}",
                    self.name(),
                );
            }
        }
        some
    }
}
