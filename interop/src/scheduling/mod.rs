//! The same nodes and pods for two schedulers, and what becomes of them.

mod picture;
mod play;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Map, Value};

pub use picture::{Fate, Picture};
pub use play::{Cluster, Outcome, play};

/// What happens, in a namespace of its own and with nodes that nobody else has.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub scenario: String,
    /// Of its namespace.
    #[serde(default)]
    pub labels: Map<String, Value>,
    pub steps: Vec<Step>,
    /// Why kube-scheduler does not do as is expected: it is asked, must fail, and its words are not compared.
    pub upstream: Option<String>,
    /// Why rhumb says it in other words: they must differ.
    pub words: Option<String>,
}

/// Everything in here is done in this order; then both schedulers have some time to do as is expected.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Step {
    /// Further namespaces, whose names begin with that of the scenario's.
    pub namespaces: Vec<Named>,
    pub nodes: Vec<Node>,
    /// Whole objects.
    pub objects: Vec<Value>,
    pub pods: Vec<Pod>,
    /// Merge patches by `kind/name`, with `/status` behind it for that.
    pub patch: BTreeMap<String, Value>,
    /// `kind/name`, at once.
    pub delete: Vec<String>,
    pub expect: BTreeMap<String, Fate>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    pub name: String,
    #[serde(default)]
    pub labels: Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    pub name: String,
    #[serde(default)]
    pub labels: Map<String, Value>,
    /// What it has beside or instead of four CPUs, 8Gi and room for 110 pods.
    #[serde(default)]
    pub capacity: Map<String, Value>,
    #[serde(default)]
    pub taints: Value,
    #[serde(default)]
    pub unschedulable: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pod {
    pub name: String,
    /// One of the further namespaces.
    pub namespace: Option<String>,
    #[serde(default)]
    pub labels: Map<String, Value>,
    /// Of its container.
    #[serde(default)]
    pub requests: Map<String, Value>,
    #[serde(default)]
    pub spec: Map<String, Value>,
}

/// The scenarios of a file.
pub fn read(path: &Path) -> Result<Vec<Scenario>> {
    let text = std::fs::read_to_string(path)?;
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(&text, options).with_context(|| path.display().to_string())
}
