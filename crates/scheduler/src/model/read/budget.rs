//! Budgets from JSON.

use std::collections::BTreeMap;

use rhumb_api::partial::{Text, or_default};
use rhumb_meta::labels::LabelSelector;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::parts::{Metadata, selector};
use crate::model::{Budget, PodKey};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wire<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: Metadata<'a>,
    #[serde(deserialize_with = "or_default")]
    spec: Spec,
    #[serde(borrow, deserialize_with = "or_default")]
    status: Status<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    selector: Option<LabelSelector>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status<'a> {
    #[serde(deserialize_with = "or_default")]
    disruptions_allowed: i32,
    #[serde(borrow, deserialize_with = "or_default")]
    disrupted_pods: BTreeMap<Text<'a>, IgnoredAny>,
}

impl Budget {
    /// Reads a PodDisruptionBudget from its JSON.
    pub fn from_json(json: &[u8]) -> Result<Budget, serde_json::Error> {
        let wire: Wire<'_> = serde_json::from_slice(json)?;
        let disrupted = wire.status.disrupted_pods.keys();
        let mut disrupted_pods: Vec<Box<str>> = disrupted.map(|name| (**name).into()).collect();
        disrupted_pods.sort();
        Ok(Budget {
            key: PodKey {
                namespace: (*wire.metadata.namespace).into(),
                name: (*wire.metadata.name).into(),
            },
            selector: selector(wire.spec.selector.as_ref()),
            disruptions_allowed: wire.status.disruptions_allowed,
            disrupted_pods: disrupted_pods.into(),
        })
    }
}
