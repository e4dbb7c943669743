//! Compares two schedulers on the same nodes and pods.

mod pod_state;
mod scenario_runner;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value};

pub use pod_state::{ExpectedPodState, PodStatesByName};
pub use scenario_runner::{ScenarioMismatches, SchedulerCluster, run_scenario};

/// A scenario, which runs in its own namespace and with its own nodes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchedulingScenario {
    pub scenario: String,
    /// Labels of its namespace.
    #[serde(default)]
    pub labels: Map<String, Value>,
    pub steps: Vec<ScenarioStep>,
    /// Why kube-scheduler deviates from the expectation: its run must fail, and its messages are not compared.
    pub upstream: Option<String>,
    /// Why the messages of rhumb differ from upstream's; they must differ.
    pub words: Option<String>,
}

/// The changes are made in field order; then both schedulers must reach the expected state in time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScenarioStep {
    /// Additional namespaces, whose names start with that of the scenario's namespace.
    pub namespaces: Vec<ScenarioNamespace>,
    pub nodes: Vec<ScenarioNode>,
    /// Complete objects.
    pub objects: Vec<Value>,
    pub pods: Vec<ScenarioPod>,
    /// Merge patches by `kind/name`, or by `kind/name/status`.
    pub patch: BTreeMap<String, Value>,
    /// `kind/name` of objects to delete without grace period.
    pub delete: Vec<String>,
    pub expect: BTreeMap<String, ExpectedPodState>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioNamespace {
    pub name: String,
    #[serde(default)]
    pub labels: Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioNode {
    pub name: String,
    #[serde(default)]
    pub labels: Map<String, Value>,
    /// Overrides of the default capacity: four CPUs, 8Gi and 110 pods.
    #[serde(default)]
    pub capacity: Map<String, Value>,
    #[serde(default)]
    pub taints: Value,
    #[serde(default)]
    pub unschedulable: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioPod {
    pub name: String,
    /// One of the additional namespaces.
    pub namespace: Option<String>,
    #[serde(default)]
    pub labels: Map<String, Value>,
    /// Requests of its container.
    #[serde(default)]
    pub requests: Map<String, Value>,
    #[serde(default)]
    pub spec: Map<String, Value>,
}

/// Reads the scenarios of a file.
pub fn read(path: &Path) -> Result<Vec<SchedulingScenario>> {
    let text = std::fs::read_to_string(path)?;
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(&text, options).with_context(|| path.display().to_string())
}
