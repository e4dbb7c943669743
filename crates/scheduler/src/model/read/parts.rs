//! Parts of objects as JSON has them.

use std::collections::BTreeMap;

use rhumb_api::partial::{Text, or_default};
use rhumb_meta::labels::{LabelSelector, Selector};
use serde::Deserialize;

use crate::model::{Effect, Labels, Toleration, TolerationOperator};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Metadata<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) namespace: Text<'a>,
    #[serde(borrow)]
    pub(super) uid: Text<'a>,
    #[serde(borrow)]
    pub(super) resource_version: Text<'a>,
    #[serde(deserialize_with = "or_default")]
    pub(super) generation: i64,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) labels: BTreeMap<Text<'a>, Text<'a>>,
    #[serde(borrow)]
    pub(super) creation_timestamp: Text<'a>,
    #[serde(borrow)]
    pub(super) deletion_timestamp: Text<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) owner_references: Vec<OwnerReference<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct OwnerReference<'a> {
    #[serde(borrow)]
    pub(super) api_version: Text<'a>,
    #[serde(borrow)]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) uid: Text<'a>,
    #[serde(deserialize_with = "or_default")]
    pub(super) controller: bool,
}

impl Metadata<'_> {
    pub(super) fn labels(&self) -> Labels {
        let labels = self.labels.iter();
        labels.map(|(key, value)| (&**key, &**value)).collect()
    }
}

/// `None` picks nothing. What cannot be matched with picks nothing either: the server lets none of it in.
pub(super) fn selector(selector: Option<&LabelSelector>) -> Selector {
    LabelSelector::to_selector(selector).unwrap_or_else(|_| Selector::nothing())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireToleration<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    #[serde(borrow)]
    operator: Text<'a>,
    #[serde(borrow)]
    value: Text<'a>,
    #[serde(borrow)]
    effect: Text<'a>,
}

impl WireToleration<'_> {
    /// `None` if it can tolerate nothing.
    pub(super) fn read(&self) -> Option<Toleration> {
        let operator = match &*self.operator {
            "" | "Equal" => TolerationOperator::Equal,
            "Exists" => TolerationOperator::Exists,
            "Lt" => TolerationOperator::Lt,
            "Gt" => TolerationOperator::Gt,
            _ => return None,
        };
        let effect = match &*self.effect {
            "" => None,
            effect => Some(read_effect(effect)?),
        };
        Some(Toleration {
            key: (*self.key).into(),
            operator,
            value: (*self.value).into(),
            effect,
        })
    }
}

pub(super) fn read_effect(effect: &str) -> Option<Effect> {
    match effect {
        "NoSchedule" => Some(Effect::NoSchedule),
        "PreferNoSchedule" => Some(Effect::PreferNoSchedule),
        "NoExecute" => Some(Effect::NoExecute),
        _ => None,
    }
}
