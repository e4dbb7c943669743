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
    pub name: String,
    #[serde(default)]
    pub namespace_labels: Map<String, Value>,
    pub steps: Vec<ScenarioStep>,
    /// Why kube-scheduler does not reach the expected states. It must not, and its conditions are not compared.
    pub upstream_deviation: Option<String>,
    /// Why rhumb's messages differ from upstream's. They must differ.
    pub message_difference: Option<String>,
}

/// The changes are made in field order; then both schedulers must reach the expected state in time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScenarioStep {
    /// Additional namespaces, whose names start with that of the scenario's namespace.
    pub namespaces: Vec<ScenarioNamespaceSpec>,
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
pub struct ScenarioNamespaceSpec {
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

/// Reads all scenarios in `interop/scheduling/`.
pub fn read_scenarios() -> Result<Vec<SchedulingScenario>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scheduling");
    let entries = std::fs::read_dir(&directory).with_context(|| directory.display().to_string())?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    paths.sort();
    let mut scenarios = Vec::new();
    for path in paths {
        scenarios.extend(read_file(&path)?);
    }
    Ok(scenarios)
}

fn read_file(path: &Path) -> Result<Vec<SchedulingScenario>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(&text, options).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_scenarios_are_valid() {
        let scenarios = read_scenarios().expect("valid scenarios");
        let names: BTreeSet<&str> = scenarios.iter().map(|scenario| &*scenario.name).collect();
        assert_eq!(names.len(), scenarios.len(), "duplicate name");
    }
}
