//! What the agent counts, for Prometheus, and whether it does what it is there for.

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use rhumb_netpol::program::Program;

/// Everything that is counted.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    sync_seconds: Histogram,
    event_seconds: Histogram,
    failures: Counter,
    repairs: Counter,
    policies: Gauge,
    local_addresses: Gauge,
    sets: Gauge,
    elements: Gauge,
    /// What it still waits for; `None` once the kernel has the rules.
    missing: Mutex<Option<String>>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let seconds = || Histogram::new(exponential_buckets(0.001, 2.0, 15));
        let mut metrics = Metrics {
            registry: Registry::default(),
            sync_seconds: seconds(),
            event_seconds: seconds(),
            failures: Counter::default(),
            repairs: Counter::default(),
            policies: Gauge::default(),
            local_addresses: Gauge::default(),
            sets: Gauge::default(),
            elements: Gauge::default(),
            missing: Mutex::new(Some("it has not begun".to_owned())),
        };
        let mut registry = Registry::with_prefix("rhumb_agent");
        metrics.register(&mut registry);
        metrics.registry = registry;
        metrics
    }
}

impl Metrics {
    fn register(&self, registry: &mut Registry) {
        registry.register(
            "sync_duration_seconds",
            "How long it took to bring the kernel up to date",
            self.sync_seconds.clone(),
        );
        registry.register(
            "event_to_kernel_seconds",
            "How long it took from when a change was heard of until the kernel had it",
            self.event_seconds.clone(),
        );
        registry.register(
            "sync_failures",
            "How often the kernel could not be brought up to date",
            self.failures.clone(),
        );
        registry.register(
            "repairs",
            "How often somebody else had removed the rules",
            self.repairs.clone(),
        );
        registry.register(
            "policies",
            "Policies that select pods of this node",
            self.policies.clone(),
        );
        registry.register(
            "local_pod_addresses",
            "Addresses of pods of this node",
            self.local_addresses.clone(),
        );
        registry.register("sets", "Sets of addresses and ports", self.sets.clone());
        registry.register(
            "elements",
            "Addresses and ports in all sets",
            self.elements.clone(),
        );
    }

    /// The whole text of `/metrics`; `None` if it cannot be written.
    pub fn text(&self) -> Option<String> {
        let mut text = String::new();
        let written: fmt::Result = encode(&mut text, &self.registry);
        written.ok().map(|()| text)
    }

    /// What it still waits for; `None` if the kernel has the rules.
    pub fn missing(&self) -> Option<String> {
        self.missing.lock().map_or(None, |missing| missing.clone())
    }

    pub(crate) fn waits_for(&self, missing: Option<String>) {
        if let Ok(mut place) = self.missing.lock() {
            *place = missing;
        }
    }

    pub(crate) fn note_sync(&self, took: Duration) {
        self.sync_seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn note_event(&self, took: Duration) {
        self.event_seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn note_failure(&self) {
        self.failures.inc();
    }

    pub(crate) fn note_repair(&self) {
        self.repairs.inc();
    }

    pub(crate) fn note_program(&self, program: &Program, policies: usize) {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let elements = program.sets.values().map(|set| set.elements.len()).sum();
        self.policies.set(count(policies));
        self.local_addresses.set(count(program.known.len()));
        self.sets.set(count(program.sets.len()));
        self.elements.set(count(elements));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_shown() {
        let metrics = Metrics::default();
        metrics.note_sync(Duration::from_millis(3));
        metrics.note_event(Duration::from_millis(5));
        metrics.note_failure();
        metrics.note_repair();
        let program = Program {
            known: [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()].into(),
            ..Program::default()
        };
        metrics.note_program(&program, 7);
        let text = metrics.text().unwrap();
        for line in [
            "rhumb_agent_sync_duration_seconds_bucket{le=\"0.004\"} 1",
            "rhumb_agent_event_to_kernel_seconds_bucket{le=\"0.004\"} 0",
            "rhumb_agent_event_to_kernel_seconds_bucket{le=\"0.008\"} 1",
            "rhumb_agent_sync_failures_total 1",
            "rhumb_agent_repairs_total 1",
            "rhumb_agent_policies 7",
            "rhumb_agent_local_pod_addresses 2",
            "rhumb_agent_sets 0",
            "rhumb_agent_elements 0",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
    }
}
