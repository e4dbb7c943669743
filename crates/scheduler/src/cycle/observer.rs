//! How long plugins take. The core has no clock: whoever wants to know brings one.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Profile;
use super::search::Checks;
use crate::cluster::{Cluster, NodeId, PodSlot};
use crate::plugins::{NodeFilter, Refusal};

/// At which point of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    Filter,
    Score,
}

/// Somebody who wants to know.
pub trait Observer: fmt::Debug + Send + Sync {
    /// Whether the decision that begins is one of those that are looked at.
    fn begins(&self) -> bool;

    /// The time, since whenever.
    fn now(&self) -> Duration;

    /// So long a plugin took, for all nodes that it was asked about.
    fn plugin_took(&self, plugin: &'static str, point: Point, is_refused: bool, took: Duration);

    /// So long all plugins of a profile took.
    fn point_took(&self, profile: &str, point: Point, is_refused: bool, took: Duration);
}

/// A filter that is looked at.
struct Timed<'c> {
    filter: Box<dyn NodeFilter + 'c>,
    plugin: &'static str,
    observer: Arc<dyn Observer>,
    spent: Cell<Duration>,
    is_refused: Cell<bool>,
}

impl NodeFilter for Timed<'_> {
    fn check(&self, node: NodeId) -> Result<(), Refusal> {
        let begun = self.observer.now();
        let result = self.filter.check(node);
        let took = self.observer.now().saturating_sub(begun);
        self.spent.set(self.spent.get() + took);
        self.is_refused
            .set(self.is_refused.get() || result.is_err());
        result
    }

    fn reasons(&self, refusal: Refusal) -> Vec<String> {
        self.filter.reasons(refusal)
    }

    fn detail(&self, node: NodeId, refusal: Refusal) -> Option<String> {
        self.filter.detail(node, refusal)
    }
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        let (is_refused, spent) = (self.is_refused.get(), self.spent.get());
        self.observer
            .plugin_took(self.plugin, Point::Filter, is_refused, spent);
    }
}

impl<'c> Checks<'c> {
    /// The same checks, looked at by somebody.
    pub(super) fn observed(self, profile: &Profile, observer: Option<&Arc<dyn Observer>>) -> Self {
        let Some(observer) = observer else {
            return self;
        };
        self.map(|plugin, filter| {
            Box::new(Timed {
                filter,
                plugin: profile.plugin_name(plugin),
                observer: observer.clone(),
                spent: Cell::default(),
                is_refused: Cell::default(),
            })
        })
    }
}

impl Profile {
    /// The scores of nodes, looked at by somebody.
    pub(super) fn scores_observed(
        &self,
        pod: &PodSlot,
        cluster: &Cluster,
        nodes: &[NodeId],
        observer: &dyn Observer,
    ) -> Vec<i64> {
        let begun = observer.now();
        let mut last = begun;
        let mut sums = vec![0; nodes.len()];
        self.each_score(pod, cluster, nodes, |enabled, scores| {
            enabled.add(scores, &mut sums);
            let now = observer.now();
            let took = now.saturating_sub(last);
            observer.plugin_took(enabled.plugin.name(), Point::Score, false, took);
            last = now;
        });
        let took = last.saturating_sub(begun);
        observer.point_took(&self.scheduler_name, Point::Score, false, took);
        sums
    }
}
