//! Workload files of the scheduler benchmark (`bench/workloads/scheduler`, fields documented in its README) and the
//! cases they expand to.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct SchedulerWorkload {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) floor: Option<f64>,
    #[serde(default)]
    pub(super) wanted: WorkloadTargets,
    #[serde(default = "one")]
    pub(super) repeats: usize,
    #[serde(default)]
    pub(super) zones: Vec<String>,
    #[serde(default)]
    pub(super) namespace_labels: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) priority_classes: BTreeMap<String, i32>,
    pod: PodTemplate,
    existing_pod: Option<PodTemplate>,
    pub(super) churn: Option<WorkloadChurn>,
    sizes: Vec<WorkloadSize>,
}

/// Performance targets of a workload.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WorkloadTargets {
    pub(super) times_peer: Option<f64>,
    pub(super) pods_per_second: Option<f64>,
    pub(super) time_growth: Option<f64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PodTemplate {
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(default = "default_cpu")]
    pub(super) cpu: String,
    #[serde(default = "default_memory")]
    pub(super) memory: String,
    #[serde(default)]
    pub(super) spec: Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct WorkloadChurn {
    pub(super) every_ms: u64,
    pub(super) pod: PodTemplate,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WorkloadSize {
    name: Option<String>,
    nodes: usize,
    #[serde(default = "one")]
    namespaces: usize,
    existing: usize,
    measured: usize,
    #[serde(default)]
    together: bool,
    pod: Option<PodTemplate>,
}

/// One size of a workload, scaled.
#[derive(Clone, Debug)]
pub(super) struct WorkloadCase {
    pub(super) name: String,
    pub(super) nodes: usize,
    pub(super) namespaces: usize,
    pub(super) existing: usize,
    pub(super) measured: usize,
    /// Whether the measured pods are created in the namespaces of the existing ones.
    pub(super) together: bool,
    pub(super) pod: PodTemplate,
    pub(super) existing_pod: PodTemplate,
}

fn one() -> usize {
    1
}

fn default_cpu() -> String {
    "100m".into()
}

fn default_memory() -> String {
    "500Mi".into()
}

impl PodTemplate {
    /// Pod with minimal requests.
    pub(super) fn tiny() -> Self {
        Self {
            labels: BTreeMap::new(),
            cpu: "1m".into(),
            memory: "1Mi".into(),
            spec: Map::new(),
        }
    }
}

impl SchedulerWorkload {
    /// Cases at this scale. Pods are rounded down and nodes up, so that a scaled case still fits.
    pub(super) fn cases(&self, scale: f64) -> Vec<WorkloadCase> {
        let sizes = self.sizes.iter();
        sizes.map(|size| self.case(size, scale)).collect()
    }

    fn case(&self, size: &WorkloadSize, scale: f64) -> WorkloadCase {
        let part = |pods: usize| ((pods as f64 * scale).floor() as usize).max(1);
        let (existing, measured) = (part(size.existing), part(size.measured));
        let nodes = ((size.nodes as f64 * scale).ceil() as usize).max(1);
        let pod = size.pod.as_ref().unwrap_or(&self.pod);
        let existing_pod = size.pod.as_ref().or(self.existing_pod.as_ref());
        WorkloadCase {
            name: match &size.name {
                Some(name) => format!("{}, {name}", self.name),
                None => self.name.clone(),
            },
            nodes,
            namespaces: size.namespaces.min(existing),
            existing,
            measured,
            together: size.together,
            pod: pod.clone(),
            existing_pod: existing_pod.unwrap_or(pod).clone(),
        }
    }

    fn check(&self) -> Result<()> {
        ensure!(!self.sizes.is_empty(), "no sizes");
        ensure!(self.repeats > 0, "repeats is zero");
        let counts = self
            .sizes
            .iter()
            .flat_map(|it| [it.nodes, it.namespaces, it.existing, it.measured]);
        ensure!(
            counts.into_iter().all(|count| count > 0),
            "a size has a zero count"
        );
        let named = self.sizes.iter().all(|size| size.name.is_some());
        ensure!(named || self.sizes.len() == 1, "sizes without names");
        Ok(())
    }
}

/// Reads all workloads of a directory: first those of one size, then those of several, each sorted by name.
pub(super) fn read_all(directory: &Path) -> Result<Vec<SchedulerWorkload>> {
    let shown = directory.display();
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {shown}"))?;
    let mut workloads = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            let text = fs::read_to_string(&path)?;
            let workload = parse(&text).with_context(|| path.display().to_string())?;
            workloads.push(workload);
        }
    }
    ensure!(!workloads.is_empty(), "no workloads in {shown}");
    workloads.sort_by(|one, other| {
        let key = |it: &SchedulerWorkload| (it.sizes.len() > 1, it.name.clone());
        key(one).cmp(&key(other))
    });
    Ok(workloads)
}

fn parse(text: &str) -> Result<SchedulerWorkload> {
    let workload: SchedulerWorkload = serde_saphyr::from_str(text)?;
    workload.check()?;
    Ok(workload)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Workloads of the repository.
    fn ours() -> Vec<SchedulerWorkload> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads/scheduler");
        read_all(&directory).expect("workloads")
    }

    #[test]
    fn scheduler_perf_cases_have_upstreams_sizes() {
        let workloads = ours();
        let check = |name: &str, nodes, existing, measured| {
            let workload = workloads.iter().find(|workload| workload.name == name);
            let cases = workload.expect(name).cases(1.0);
            let sizes: Vec<_> = cases
                .iter()
                .map(|case| (case.nodes, case.existing, case.measured))
                .collect();
            assert_eq!(sizes, [(nodes, existing, measured)], "{name}");
        };
        check(
            "SchedulingRequiredPodAntiAffinityWithNSSelector",
            6000,
            4000,
            2000,
        );
        check(
            "SchedulingPreferredAntiAffinityWithNSSelector",
            5000,
            4000,
            2000,
        );
        check(
            "SchedulingRequiredPodAffinityWithNSSelector",
            5000,
            5000,
            2000,
        );
        check(
            "SchedulingPreferredAffinityWithNSSelector",
            5000,
            5000,
            5000,
        );
        check("SchedulingPodAntiAffinity", 5000, 1000, 2000);
        check("SchedulingPodAffinity", 5000, 5000, 5000);
        check("TopologySpreading", 5000, 5000, 5000);
        check("PreemptionAsync", 5000, 20000, 5000);
        check("SchedulingBasic", 5000, 1000, 10000);
    }

    #[test]
    fn scaled_cases_still_fit_all_pods() {
        let mut one_a_node = 0;
        for workload in ours() {
            let all = [0.013, 0.05, 0.5, 1.0].map(|scale| workload.cases(scale));
            for case in all.iter().flatten() {
                assert!(case.namespaces >= 1 && case.measured >= 1);
                let spec = Value::Object(case.pod.spec.clone()).to_string();
                if spec.contains(r#""podAntiAffinity":{"required"#) {
                    one_a_node += 1;
                    assert!(case.existing + case.measured <= case.nodes, "{case:?}");
                }
            }
        }
        assert!(one_a_node > 0, "no workload has one pod a node");
    }

    #[test]
    fn invalid_workloads_are_rejected() {
        let check = |text: &str, expected: &str| {
            let problem = format!("{:#}", parse(text).expect_err(text));
            assert!(problem.contains(expected), "{problem}");
        };
        check("name: a\nabout: b\npod: {}\nsizes: []\n", "no sizes");
        let size = "{nodes: 1, existing: 1, measured: 1}";
        let two = format!("name: a\nabout: b\npod: {{}}\nsizes: [{size}, {size}]\n");
        check(&two, "sizes without names");
        let zero = size.replace("measured: 1", "measured: 0");
        let zero = format!("name: a\nabout: b\npod: {{}}\nsizes: [{zero}]\n");
        check(&zero, "a size has a zero count");
        let unknown = format!("name: a\nabout: b\npot: {{}}\npod: {{}}\nsizes: [{size}]\n");
        check(&unknown, "pot");
    }
}
