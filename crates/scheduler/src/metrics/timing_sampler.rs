//! Plugin timing for a sample of scheduling cycles. Reading the clock costs more than many plugins, so not all cycles
//! are timed (upstream: `pluginMetricsSamplePercent`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::Metrics;
use crate::cycle::{PluginTimingObserver, TimedExtensionPoint};

/// Percentage of timed cycles, as upstream.
const SAMPLED_PERCENT: u32 = 10;

/// Times a random sample of scheduling cycles.
#[derive(Debug)]
pub struct PluginTimingSampler {
    metrics: Arc<Metrics>,
    started: Instant,
    /// State of an xorshift generator. Random, because sampling every tenth cycle would be biased by periodic load.
    random: AtomicU32,
}

impl PluginTimingSampler {
    pub fn new(metrics: Arc<Metrics>) -> PluginTimingSampler {
        PluginTimingSampler {
            metrics,
            started: Instant::now(),
            random: AtomicU32::new(0x9e37_79b9),
        }
    }
}

impl PluginTimingObserver for PluginTimingSampler {
    fn sample_attempt(&self) -> bool {
        // Only the scheduling thread modifies it, so load and store need not be one atomic operation.
        let mut random = self.random.load(Ordering::Relaxed);
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        self.random.store(random, Ordering::Relaxed);
        random % 100 < SAMPLED_PERCENT
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn record_plugin_duration(
        &self,
        plugin: &'static str,
        point: TimedExtensionPoint,
        is_refused: bool,
        took: Duration,
    ) {
        let (point, status) = (extension_point_name(point), status_label(is_refused));
        self.metrics.note_plugin(plugin, point, status, took);
    }

    fn record_extension_point_duration(
        &self,
        profile: &str,
        point: TimedExtensionPoint,
        is_refused: bool,
        took: Duration,
    ) {
        let (point, status) = (extension_point_name(point), status_label(is_refused));
        self.metrics
            .note_extension_point(point, status, profile, took);
    }
}

fn extension_point_name(point: TimedExtensionPoint) -> &'static str {
    match point {
        TimedExtensionPoint::Filter => "Filter",
        TimedExtensionPoint::Score => "Score",
    }
}

fn status_label(is_refused: bool) -> &'static str {
    if is_refused {
        "Unschedulable"
    } else {
        "Success"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_attempt_in_ten_is_sampled_irregularly() {
        let watch = PluginTimingSampler::new(Arc::default());
        let taken: Vec<usize> = (0..10_000).filter(|_| watch.sample_attempt()).collect();
        assert!((800..1200).contains(&taken.len()), "{}", taken.len());
        for rest in 0..10 {
            let part = taken.iter().filter(|index| *index % 10 == rest).count();
            assert!((50..200).contains(&part), "{rest}: {part}");
        }
    }
}
