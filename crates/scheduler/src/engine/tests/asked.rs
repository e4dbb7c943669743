//! Plugins that count how often they are asked whether something helps, and contradict themselves nowhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cluster::{Cluster, NodeId, PodSlot};
use crate::cycle::Profile;
use crate::plugins::{Event, Filtering, NodeScore, Plugin, Unschedulable};

#[derive(Clone, Default)]
pub(super) struct Asked(Arc<AtomicUsize>);

impl Asked {
    /// How often since it was last asked for.
    pub(super) fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

struct Counted {
    plugin: Box<dyn Plugin>,
    asked: Asked,
}

pub(super) fn count(profile: &mut Profile, asked: &Asked) {
    let plugins = std::mem::take(&mut profile.plugins).into_iter();
    let counted = plugins.map(|mut enabled| {
        enabled.plugin = Box::new(Counted {
            plugin: enabled.plugin,
            asked: asked.clone(),
        });
        enabled
    });
    profile.plugins = counted.collect();
}

impl Plugin for Counted {
    fn name(&self) -> &'static str {
        self.plugin.name()
    }

    fn filter<'c>(
        &'c self,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
    ) -> Result<Filtering<'c>, Unschedulable> {
        self.plugin.filter(pod, cluster)
    }

    fn score<'c>(
        &'c self,
        pod: &'c PodSlot,
        cluster: &'c Cluster,
        nodes: &[NodeId],
    ) -> Option<Box<dyn NodeScore + 'c>> {
        self.plugin.score(pod, cluster, nodes)
    }

    fn topology_keys(&self) -> Vec<&str> {
        self.plugin.topology_keys()
    }

    fn may_help(&self, event: &Event<'_>, pod: &PodSlot, cluster: &Cluster) -> bool {
        self.asked.0.fetch_add(1, Ordering::Relaxed);
        self.plugin.may_help(event, pod, cluster)
    }

    /// Whoever says no to all must not say yes to one.
    fn may_help_some(&self, event: &Event<'_>, cluster: &Cluster) -> bool {
        let some = self.plugin.may_help_some(event, cluster);
        if !some {
            for (id, slot) in cluster.pods().iter() {
                assert!(
                    slot.place().is_some() || !self.plugin.may_help(event, slot, cluster),
                    "{} contradicts itself about {id:?}: {event:?}",
                    self.name(),
                );
            }
        }
        some
    }
}
