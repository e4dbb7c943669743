//! What the scheduler counts, for Prometheus; names, labels and buckets are upstream's where upstream has them.

mod stopwatch;

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry as Exposition;

pub use stopwatch::Stopwatch;

use crate::engine::Pending;
use crate::queue::Incoming;

/// From so many attempts on, pods are counted together: as `16+`.
const ATTEMPTS_APART_MAX: u32 = 15;

/// What became of an attempt to schedule a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    Scheduled,
    Unschedulable,
    Error,
}

impl Attempt {
    fn label(self) -> &'static str {
        match self {
            Attempt::Scheduled => "scheduled",
            Attempt::Unschedulable => "unschedulable",
            Attempt::Error => "error",
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Result {
    result: &'static str,
    profile: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Attempts {
    attempts: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Queue {
    queue: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Came {
    queue: &'static str,
    event: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Point {
    extension_point: &'static str,
    status: &'static str,
    profile: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PluginPoint {
    plugin: &'static str,
    extension_point: &'static str,
    status: &'static str,
}

/// Everything that is counted.
#[derive(Debug)]
pub struct Metrics {
    exposition: Exposition,
    attempts: Family<Result, Counter>,
    attempt_seconds: Family<Result, Histogram, fn() -> Histogram>,
    algorithm_seconds: Histogram,
    pod_seconds: Family<Attempts, Histogram, fn() -> Histogram>,
    pod_sli_seconds: Family<Attempts, Histogram, fn() -> Histogram>,
    pod_attempts: Histogram,
    point_seconds: Family<Point, Histogram, fn() -> Histogram>,
    plugin_seconds: Family<PluginPoint, Histogram, fn() -> Histogram>,
    pending: Family<Queue, Gauge>,
    incoming: Family<Came, Counter>,
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
            "Attempts to schedule pods, by result",
            self.attempts.clone(),
        );
        exposition.register(
            "scheduler_scheduling_attempt_duration_seconds",
            "How long an attempt took, from the decision to the answer to its binding",
            self.attempt_seconds.clone(),
        );
        exposition.register(
            "scheduler_scheduling_algorithm_duration_seconds",
            "How long a decision took",
            self.algorithm_seconds.clone(),
        );
        exposition.register(
            "scheduler_pod_scheduling_duration_seconds",
            "How long pods waited from when they were first seen until they were bound, by attempts",
            self.pod_seconds.clone(),
        );
        exposition.register(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "How long it took from the first attempt until pods were bound, by attempts",
            self.pod_sli_seconds.clone(),
        );
        exposition.register(
            "scheduler_pod_scheduling_attempts",
            "How many attempts it took until a pod was bound",
            self.pod_attempts.clone(),
        );
        exposition.register(
            "scheduler_framework_extension_point_duration_seconds",
            "How long all plugins of an extension point took for a pod, of a part of all attempts",
            self.point_seconds.clone(),
        );
        exposition.register(
            "scheduler_plugin_execution_duration_seconds",
            "How long a plugin took at an extension point for a pod and all nodes, of a part of all attempts",
            self.plugin_seconds.clone(),
        );
    }

    fn register_queue(&self, exposition: &mut Exposition) {
        exposition.register(
            "scheduler_pending_pods",
            "Pods that wait, by queue",
            self.pending.clone(),
        );
        exposition.register(
            "scheduler_queue_incoming_pods",
            "Pods that came into a queue, by what brought them there",
            self.incoming.clone(),
        );
        exposition.register(
            "scheduler_preemption_attempts",
            "How often somebody was looked for who could make room for a pod",
            self.preemption_attempts.clone(),
        );
        exposition.register(
            "scheduler_preemption_victims",
            "How many pods had to go for one",
            self.preemption_victims.clone(),
        );
        exposition.register(
            "rhumb_scheduler_events_dropped",
            "Events that were not told because too many waited",
            self.events_dropped.clone(),
        );
    }

    /// All that is counted, to be shown beside what others count.
    pub fn write(&self, text: &mut String) -> fmt::Result {
        encode_registry(text, &self.exposition)
    }

    /// The whole text of `/metrics`; `None` if it cannot be written.
    pub fn text(&self) -> Option<String> {
        let mut text = String::new();
        self.write(&mut text).ok()?;
        encode_eof(&mut text).ok()?;
        Some(text)
    }

    /// An attempt came to its end.
    pub fn note_attempt(&self, profile: &str, attempt: Attempt, took: Duration) {
        let labels = Result {
            result: attempt.label(),
            profile: profile.to_owned(),
        };
        self.attempts.get_or_create(&labels).inc();
        let seconds = self.attempt_seconds.get_or_create(&labels);
        seconds.observe(took.as_secs_f64());
    }

    /// A decision was made, whatever it is.
    pub fn note_decision(&self, took: Duration) {
        self.algorithm_seconds.observe(took.as_secs_f64());
    }

    /// A pod was bound after so many attempts, so long after it was first seen and first tried.
    pub fn note_bound(&self, attempts: u32, waited: Duration, tried_for: Duration) {
        let labels = Attempts {
            attempts: match attempts {
                0..=ATTEMPTS_APART_MAX => attempts.to_string(),
                _ => format!("{}+", ATTEMPTS_APART_MAX + 1),
            },
        };
        let (waited, tried_for) = (waited.as_secs_f64(), tried_for.as_secs_f64());
        self.pod_seconds.get_or_create(&labels).observe(waited);
        let sli = self.pod_sli_seconds.get_or_create(&labels);
        sli.observe(tried_for);
        self.pod_attempts.observe(f64::from(attempts));
    }

    pub fn note_pending(&self, pending: &Pending) {
        for (queue, pods) in [
            ("active", pending.active),
            ("backoff", pending.backoff),
            ("unschedulable", pending.unschedulable),
            ("gated", pending.gated),
        ] {
            let gauge = self.pending.get_or_create(&Queue { queue });
            gauge.set(i64::try_from(pods).unwrap_or(i64::MAX));
        }
    }

    pub fn note_incoming(&self, incoming: &Incoming) {
        for (queue, event, pods) in incoming.counts() {
            let counter = self.incoming.get_or_create(&Came { queue, event });
            counter.inc_by(pods);
        }
    }

    /// So often somebody was looked for who could make room.
    pub fn note_preemptions(&self, times: u64) {
        self.preemption_attempts.inc_by(times);
    }

    /// So many had to go for a pod.
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
        let labels = Point {
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
        let labels = PluginPoint {
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
    fn what_is_counted_is_shown_as_upstream_shows_it() {
        let metrics = Metrics::default();
        let tick = Duration::from_millis(3);
        metrics.note_attempt("default-scheduler", Attempt::Scheduled, tick);
        metrics.note_attempt("default-scheduler", Attempt::Unschedulable, tick);
        metrics.note_decision(tick);
        metrics.note_bound(2, 100 * tick, tick);
        metrics.note_bound(40, tick, tick);
        metrics.note_pending(&Pending {
            active: 7,
            gated: 1,
            ..Pending::default()
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
