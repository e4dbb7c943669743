//! Prometheus metrics and readiness of the agent.

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use rhumb_netpol::ruleset::NodeRuleset;

/// All metrics of the agent, and the reason why it is not ready.
#[derive(Debug)]
pub struct AgentMetrics {
    registry: Registry,
    sync_seconds: Histogram,
    event_seconds: Histogram,
    failures: Counter,
    repairs: Counter,
    policies: Gauge,
    local_addresses: Gauge,
    sets: Gauge,
    elements: Gauge,
    /// Why the agent is not ready; `None` once the kernel has the rules.
    not_ready_reason: Mutex<Option<String>>,
}

impl Default for AgentMetrics {
    fn default() -> AgentMetrics {
        let seconds = || Histogram::new(exponential_buckets(0.001, 2.0, 15));
        let mut metrics = AgentMetrics {
            registry: Registry::default(),
            sync_seconds: seconds(),
            event_seconds: seconds(),
            failures: Counter::default(),
            repairs: Counter::default(),
            policies: Gauge::default(),
            local_addresses: Gauge::default(),
            sets: Gauge::default(),
            elements: Gauge::default(),
            not_ready_reason: Mutex::new(Some("the agent has not started".to_owned())),
        };
        let mut registry = Registry::with_prefix("rhumb_agent");
        metrics.register(&mut registry);
        metrics.registry = registry;
        metrics
    }
}

impl AgentMetrics {
    fn register(&self, registry: &mut Registry) {
        registry.register(
            "sync_duration_seconds",
            "Duration of writing the rules to the kernel",
            self.sync_seconds.clone(),
        );
        registry.register(
            "event_to_kernel_seconds",
            "Time from receiving a watch event until the kernel has the resulting rules",
            self.event_seconds.clone(),
        );
        registry.register(
            "sync_failures",
            "Failed attempts to write the rules to the kernel",
            self.failures.clone(),
        );
        registry.register(
            "repairs",
            "Times the rules were written again after another process had changed or removed them",
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

    /// The response body of `/metrics`; `None` if encoding fails.
    pub fn text(&self) -> Option<String> {
        let mut text = String::new();
        let written: fmt::Result = encode(&mut text, &self.registry);
        written.ok().map(|()| text)
    }

    /// Why the agent is not ready; `None` if the kernel has the rules.
    pub fn not_ready_reason(&self) -> Option<String> {
        self.not_ready_reason
            .lock()
            .map_or(None, |missing| missing.clone())
    }

    pub(crate) fn set_not_ready_reason(&self, missing: Option<String>) {
        if let Ok(mut reason) = self.not_ready_reason.lock() {
            *reason = missing;
        }
    }

    pub(crate) fn record_sync(&self, took: Duration) {
        self.sync_seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn record_event_latency(&self, took: Duration) {
        self.event_seconds.observe(took.as_secs_f64());
    }

    pub(crate) fn record_sync_failure(&self) {
        self.failures.inc();
    }

    pub(crate) fn record_repair(&self) {
        self.repairs.inc();
    }

    pub(crate) fn record_ruleset(&self, program: &NodeRuleset, policies: usize) {
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let elements = program.sets.values().map(|set| set.elements.len()).sum();
        self.policies.set(count(policies));
        self.local_addresses
            .set(count(program.known_addresses.len()));
        self.sets.set(count(program.sets.len()));
        self.elements.set(count(elements));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_metrics_are_rendered() {
        let metrics = AgentMetrics::default();
        metrics.record_sync(Duration::from_millis(3));
        metrics.record_event_latency(Duration::from_millis(5));
        metrics.record_sync_failure();
        metrics.record_repair();
        let program = NodeRuleset {
            known_addresses: [[10, 0, 0, 1].into(), [10, 0, 0, 2].into()].into(),
            ..NodeRuleset::default()
        };
        metrics.record_ruleset(&program, 7);
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
