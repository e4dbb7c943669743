//! Measures how long plugins take, for metrics. The core has no clock; the [`PluginTimingObserver`] provides it.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Profile;
use super::node_search::FilterChain;
use crate::cluster::{ClusterState, NodeId, PodInfo};
use crate::plugins::{FilterRejection, NodeFilter};

/// The extension points that are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimedExtensionPoint {
    Filter,
    Score,
}

/// Clock and sink of plugin timings.
pub trait PluginTimingObserver: fmt::Debug + Send + Sync {
    /// Whether to measure the scheduling attempt that begins.
    fn sample_attempt(&self) -> bool;

    /// The time since an arbitrary fixed moment.
    fn now(&self) -> Duration;

    /// Records the time that a plugin took for all nodes of an attempt.
    fn record_plugin_duration(
        &self,
        plugin: &'static str,
        point: TimedExtensionPoint,
        is_refused: bool,
        took: Duration,
    );

    /// Records the time that all plugins of a profile took at an extension point.
    fn record_extension_point_duration(
        &self,
        profile: &str,
        point: TimedExtensionPoint,
        is_refused: bool,
        took: Duration,
    );
}

/// A filter that measures its time and reports it on drop.
struct TimedFilter<'c> {
    filter: Box<dyn NodeFilter + 'c>,
    plugin: &'static str,
    observer: Arc<dyn PluginTimingObserver>,
    spent: Cell<Duration>,
    is_refused: Cell<bool>,
}

impl NodeFilter for TimedFilter<'_> {
    fn check(&self, node: NodeId) -> Result<(), FilterRejection> {
        let started = self.observer.now();
        let result = self.filter.check(node);
        let took = self.observer.now().saturating_sub(started);
        self.spent.set(self.spent.get() + took);
        self.is_refused
            .set(self.is_refused.get() || result.is_err());
        result
    }

    fn reasons(&self, rejection: FilterRejection) -> Vec<String> {
        self.filter.reasons(rejection)
    }

    fn detail(&self, node: NodeId, rejection: FilterRejection) -> Option<String> {
        self.filter.detail(node, rejection)
    }
}

impl Drop for TimedFilter<'_> {
    fn drop(&mut self) {
        let (is_refused, spent) = (self.is_refused.get(), self.spent.get());
        self.observer.record_plugin_duration(
            self.plugin,
            TimedExtensionPoint::Filter,
            is_refused,
            spent,
        );
    }
}

impl<'c> FilterChain<'c> {
    /// Wraps the filters so that their time is measured, if there is an observer.
    pub(super) fn timed(
        self,
        profile: &Profile,
        observer: Option<&Arc<dyn PluginTimingObserver>>,
    ) -> Self {
        let Some(observer) = observer else {
            return self;
        };
        self.map_filters(|plugin, filter| {
            Box::new(TimedFilter {
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
    /// As `total_scores`, with the time of each plugin measured.
    pub(super) fn total_scores_timed(
        &self,
        pod: &PodInfo,
        cluster: &ClusterState,
        nodes: &[NodeId],
        observer: &dyn PluginTimingObserver,
    ) -> Vec<i64> {
        let started = observer.now();
        let mut last = started;
        let mut sums = vec![0; nodes.len()];
        self.for_each_plugin_score(pod, cluster, nodes, |enabled, scores| {
            enabled.add_weighted(scores, &mut sums);
            let now = observer.now();
            let took = now.saturating_sub(last);
            observer.record_plugin_duration(
                enabled.plugin.name(),
                TimedExtensionPoint::Score,
                false,
                took,
            );
            last = now;
        });
        let took = last.saturating_sub(started);
        observer.record_extension_point_duration(
            &self.scheduler_name,
            TimedExtensionPoint::Score,
            false,
            took,
        );
        sums
    }
}
