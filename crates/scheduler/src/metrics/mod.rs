//! Prometheus metrics of the scheduler. Names, labels and buckets are upstream's where upstream has the metric.

mod timing_sampler;

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry as Exposition;

pub use timing_sampler::PluginTimingSampler;

use crate::engine::PendingPodCounts;
use crate::queue::IncomingPodCounts;

/// Larger attempt counts share the label value `16+`, as upstream.
const ATTEMPTS_LABEL_MAX: u32 = 15;

/// The result of a scheduling attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptResult {
    Scheduled,
    Unschedulable,
    Error,
}

impl AttemptResult {
    fn label(self) -> &'static str {
        match self {
            AttemptResult::Scheduled => "scheduled",
            AttemptResult::Unschedulable => "unschedulable",
            AttemptResult::Error => "error",
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AttemptLabels {
    result: &'static str,
    profile: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AttemptCountLabels {
    attempts: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct QueueLabels {
    queue: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct IncomingPodLabels {
    queue: &'static str,
    event: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ExtensionPointLabels {
    extension_point: &'static str,
    status: &'static str,
    profile: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PluginLabels {
    plugin: &'static str,
    extension_point: &'static str,
    status: &'static str,
}

/// All metrics of the scheduler.
#[derive(Debug)]
pub struct Metrics {
    exposition: Exposition,
    attempts: Family<AttemptLabels, Counter>,
    attempt_seconds: Family<AttemptLabels, Histogram, fn() -> Histogram>,
    algorithm_seconds: Histogram,
    pod_seconds: Family<AttemptCountLabels, Histogram, fn() -> Histogram>,
    pod_sli_seconds: Family<AttemptCountLabels, Histogram, fn() -> Histogram>,
    pod_attempts: Histogram,
    point_seconds: Family<ExtensionPointLabels, Histogram, fn() -> Histogram>,
    plugin_seconds: Family<PluginLabels, Histogram, fn() -> Histogram>,
    pending: Family<QueueLabels, Gauge>,
    incoming: Family<IncomingPodLabels, Counter>,
    preemption_attempts: Counter,
    preemption_victims: Histogram,
    events_dropped: Counter,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let attempt_seconds: fn() -> Histogram =
            || Histogram::new(exponential_buckets(0.001, 2.0, 15));
        let pod_seconds: fn() -> Histogram = || Histogram::new(exponential_buckets(0.01, 2.0, 20));
        let point_seconds: fn() -> Histogram =
            || Histogram::new(exponential_buckets(0.0001, 2.0, 12));
        let plugin_seconds: fn() -> Histogram =
            || Histogram::new(exponential_buckets(0.000_01, 1.5, 20));
        let mut metrics = Metrics {
            exposition: Exposition::default(),
            attempts: Family::default(),
            attempt_seconds: Family::new_with_constructor(attempt_seconds),
            algorithm_seconds: attempt_seconds(),
            pod_seconds: Family::new_with_constructor(pod_seconds),
            pod_sli_seconds: Family::new_with_constructor(pod_seconds),
            pod_attempts: Histogram::new(exponential_buckets(1.0, 2.0, 5)),
            point_seconds: Family::new_with_constructor(point_seconds),
            plugin_seconds: Family::new_with_constructor(plugin_seconds),
            pending: Family::default(),
            incoming: Family::default(),
            preemption_attempts: Counter::default(),
            preemption_victims: Histogram::new(exponential_buckets(1.0, 2.0, 7)),
            events_dropped: Counter::default(),
        };
        let mut exposition = Exposition::default();
        metrics.register_attempts(&mut exposition);
        metrics.register_queue(&mut exposition);
        metrics.exposition = exposition;
        metrics
    }
}

impl Metrics {
    fn register_attempts(&self, exposition: &mut Exposition) {
        exposition.register(
            "scheduler_schedule_attempts",
            "Number of attempts to schedule pods, by result",
            self.attempts.clone(),
        );
        exposition.register(
            "scheduler_scheduling_attempt_duration_seconds",
            "Scheduling attempt latency in seconds, from the scheduling cycle to the response to the binding",
            self.attempt_seconds.clone(),
        );
        exposition.register(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Scheduling algorithm latency in seconds",
            self.algorithm_seconds.clone(),
        );
        exposition.register(
            "scheduler_pod_scheduling_duration_seconds",
            "Latency in seconds from first seeing a pod until it is bound, by number of attempts",
            self.pod_seconds.clone(),
        );
        exposition.register(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Latency in seconds from the first attempt until a pod is bound, by number of attempts",
            self.pod_sli_seconds.clone(),
        );
        exposition.register(
            "scheduler_pod_scheduling_attempts",
            "Number of attempts to successfully schedule a pod",
            self.pod_attempts.clone(),
        );
        exposition.register(
            "scheduler_framework_extension_point_duration_seconds",
            "Latency in seconds of all plugins of an extension point for a pod, sampled",
            self.point_seconds.clone(),
        );
        exposition.register(
            "scheduler_plugin_execution_duration_seconds",
            "Latency in seconds of a plugin at an extension point for a pod over all nodes, sampled",
            self.plugin_seconds.clone(),
        );
    }

    fn register_queue(&self, exposition: &mut Exposition) {
        exposition.register(
            "scheduler_pending_pods",
            "Number of pending pods, by queue",
            self.pending.clone(),
        );
        exposition.register(
            "scheduler_queue_incoming_pods",
            "Number of pods added to scheduling queues, by event and queue",
            self.incoming.clone(),
        );
        exposition.register(
            "scheduler_preemption_attempts",
            "Number of preemption attempts",
            self.preemption_attempts.clone(),
        );
        exposition.register(
            "scheduler_preemption_victims",
            "Number of selected preemption victims per preemption",
            self.preemption_victims.clone(),
        );
        exposition.register(
            "rhumb_scheduler_events_dropped",
            "Number of events dropped because the queue was full",
            self.events_dropped.clone(),
        );
    }

    /// Appends the metrics without the end marker, to be combined with other metrics.
    pub fn write(&self, text: &mut String) -> fmt::Result {
        encode_registry(text, &self.exposition)
    }

    /// The body of `/metrics`; `None` if encoding fails.
    pub fn text(&self) -> Option<String> {
        let mut text = String::new();
        self.write(&mut text).ok()?;
        encode_eof(&mut text).ok()?;
        Some(text)
    }

    /// Records a finished scheduling attempt.
    pub fn note_attempt(&self, profile: &str, attempt: AttemptResult, took: Duration) {
        let labels = AttemptLabels {
            result: attempt.label(),
            profile: profile.to_owned(),
        };
        self.attempts.get_or_create(&labels).inc();
        let seconds = self.attempt_seconds.get_or_create(&labels);
        seconds.observe(took.as_secs_f64());
    }

    /// Records the duration of a scheduling cycle.
    pub fn note_decision(&self, took: Duration) {
        self.algorithm_seconds.observe(took.as_secs_f64());
    }

    /// Records a bound pod: its attempts, and the time since it was first seen and first attempted.
    pub fn note_bound(&self, attempts: u32, waited: Duration, since_first_attempt: Duration) {
        let labels = AttemptCountLabels {
            attempts: match attempts {
                0..=ATTEMPTS_LABEL_MAX => attempts.to_string(),
                _ => format!("{}+", ATTEMPTS_LABEL_MAX + 1),
            },
        };
        let (waited, since_first_attempt) =
            (waited.as_secs_f64(), since_first_attempt.as_secs_f64());
        self.pod_seconds.get_or_create(&labels).observe(waited);
        let sli = self.pod_sli_seconds.get_or_create(&labels);
        sli.observe(since_first_attempt);
        self.pod_attempts.observe(f64::from(attempts));
    }

    pub fn note_pending(&self, pending: &PendingPodCounts) {
        for (queue, pods) in [
            ("active", pending.active),
            ("backoff", pending.backoff),
            ("unschedulable", pending.unschedulable),
            ("gated", pending.gated),
        ] {
            let gauge = self.pending.get_or_create(&QueueLabels { queue });
            gauge.set(i64::try_from(pods).unwrap_or(i64::MAX));
        }
    }

    pub fn note_incoming(&self, incoming: &IncomingPodCounts) {
        for (queue, event, pods) in incoming.counts() {
            let counter = self
                .incoming
                .get_or_create(&IncomingPodLabels { queue, event });
            counter.inc_by(pods);
        }
    }

    /// Adds preemption attempts.
    pub fn note_preemptions(&self, attempts: u64) {
        self.preemption_attempts.inc_by(attempts);
    }

    /// Records the number of victims of one preemption.
    pub fn note_victims(&self, victims: usize) {
        self.preemption_victims
            .observe(u32::try_from(victims).map_or(f64::MAX, f64::from));
    }

    pub fn note_extension_point(
        &self,
        extension_point: &'static str,
        status: &'static str,
        profile: &str,
        took: Duration,
    ) {
        let labels = ExtensionPointLabels {
            extension_point,
            status,
            profile: profile.to_owned(),
        };
        let seconds = self.point_seconds.get_or_create(&labels);
        seconds.observe(took.as_secs_f64());
    }

    pub fn note_plugin(
        &self,
        plugin: &'static str,
        extension_point: &'static str,
        status: &'static str,
        took: Duration,
    ) {
        let labels = PluginLabels {
            plugin,
            extension_point,
            status,
        };
        let seconds = self.plugin_seconds.get_or_create(&labels);
        seconds.observe(took.as_secs_f64());
    }

    pub fn note_event_dropped(&self) {
        self.events_dropped.inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_exposed_as_upstream() {
        let metrics = Metrics::default();
        let tick = Duration::from_millis(3);
        metrics.note_attempt("default-scheduler", AttemptResult::Scheduled, tick);
        metrics.note_attempt("default-scheduler", AttemptResult::Unschedulable, tick);
        metrics.note_decision(tick);
        metrics.note_bound(2, 100 * tick, tick);
        metrics.note_bound(40, tick, tick);
        metrics.note_pending(&PendingPodCounts {
            active: 7,
            gated: 1,
            ..PendingPodCounts::default()
        });
        metrics.note_preemptions(2);
        metrics.note_victims(3);
        metrics.note_extension_point("Filter", "Success", "default-scheduler", tick);
        metrics.note_plugin("InterPodAffinity", "Filter", "Unschedulable", tick);
        metrics.note_event_dropped();
        let text = metrics.text().unwrap();
        for line in [
            "scheduler_schedule_attempts_total{result=\"scheduled\",profile=\"default-scheduler\"} 1",
            "scheduler_schedule_attempts_total{result=\"unschedulable\",profile=\"default-scheduler\"} 1",
            "scheduler_scheduling_attempt_duration_seconds_bucket{le=\"0.004\",result=\"scheduled\",profile=\"default-scheduler\"} 1",
            "scheduler_scheduling_algorithm_duration_seconds_bucket{le=\"0.002\"} 0",
            "scheduler_scheduling_algorithm_duration_seconds_bucket{le=\"16.384\"} 1",
            "scheduler_pod_scheduling_duration_seconds_count{attempts=\"2\"} 1",
            "scheduler_pod_scheduling_sli_duration_seconds_count{attempts=\"16+\"} 1",
            "scheduler_pod_scheduling_attempts_bucket{le=\"16.0\"} 1",
            "scheduler_pending_pods{queue=\"active\"} 7",
            "scheduler_pending_pods{queue=\"backoff\"} 0",
            "scheduler_pending_pods{queue=\"gated\"} 1",
            "scheduler_preemption_attempts_total 2",
            "scheduler_pod_scheduling_duration_seconds_bucket{le=\"0.16\",attempts=\"2\"} 0",
            "scheduler_pod_scheduling_sli_duration_seconds_bucket{le=\"0.01\",attempts=\"2\"} 1",
            "scheduler_preemption_victims_bucket{le=\"4.0\"} 1",
            "scheduler_framework_extension_point_duration_seconds_count{extension_point=\"Filter\",status=\"Success\",profile=\"default-scheduler\"} 1",
            "scheduler_plugin_execution_duration_seconds_count{plugin=\"InterPodAffinity\",extension_point=\"Filter\",status=\"Unschedulable\"} 1",
            "rhumb_scheduler_events_dropped_total 1",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
