//! Decodes parts that several kinds share: object metadata, label selectors, tolerations, taint effects.

use std::collections::BTreeMap;

use rhumb_api::partial_decode::{BorrowedStr, or_default};
use rhumb_meta::labels::{LabelSelector, Selector};
use serde::Deserialize;

use crate::model::{Labels, TaintEffect, Toleration, TolerationOperator};

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireObjectMeta<'a> {
    #[serde(borrow)]
    pub(super) name: BorrowedStr<'a>,
    #[serde(borrow)]
    pub(super) namespace: BorrowedStr<'a>,
    #[serde(borrow)]
    pub(super) uid: BorrowedStr<'a>,
    #[serde(borrow)]
    pub(super) resource_version: BorrowedStr<'a>,
    #[serde(deserialize_with = "or_default")]
    pub(super) generation: i64,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) labels: BTreeMap<BorrowedStr<'a>, BorrowedStr<'a>>,
    #[serde(borrow)]
    pub(super) creation_timestamp: BorrowedStr<'a>,
    #[serde(borrow)]
    pub(super) deletion_timestamp: BorrowedStr<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    pub(super) owner_references: Vec<WireOwnerReference<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct WireOwnerReference<'a> {
    #[serde(borrow)]
    pub(super) api_version: BorrowedStr<'a>,
    #[serde(borrow)]
    pub(super) kind: BorrowedStr<'a>,
    #[serde(borrow)]
    pub(super) name: BorrowedStr<'a>,
    #[serde(borrow)]
    pub(super) uid: BorrowedStr<'a>,
    #[serde(deserialize_with = "or_default")]
    pub(super) controller: bool,
}

impl WireObjectMeta<'_> {
    pub(super) fn labels(&self) -> Labels {
        let labels = self.labels.iter();
        labels.map(|(key, value)| (&**key, &**value)).collect()
    }
}

/// `None` matches nothing. An invalid selector matches nothing either; the API server rejects those.
pub(super) fn decode_selector(selector: Option<&LabelSelector>) -> Selector {
    LabelSelector::to_selector(selector).unwrap_or_else(|_| Selector::nothing())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WireToleration<'a> {
    #[serde(borrow)]
    key: BorrowedStr<'a>,
    #[serde(borrow)]
    operator: BorrowedStr<'a>,
    #[serde(borrow)]
    value: BorrowedStr<'a>,
    #[serde(borrow)]
    effect: BorrowedStr<'a>,
}

impl WireToleration<'_> {
    /// `None` if the operator or effect is unknown, so that it tolerates nothing.
    pub(super) fn decode(&self) -> Option<Toleration> {
        let operator = match &*self.operator {
            "" | "Equal" => TolerationOperator::Equal,
            "Exists" => TolerationOperator::Exists,
            "Lt" => TolerationOperator::Lt,
            "Gt" => TolerationOperator::Gt,
            _ => return None,
        };
        let effect = match &*self.effect {
            "" => None,
            effect => Some(decode_effect(effect)?),
        };
        Some(Toleration {
            key: (*self.key).into(),
            operator,
            value: (*self.value).into(),
            effect,
        })
    }
}

pub(super) fn decode_effect(effect: &str) -> Option<TaintEffect> {
    match effect {
        "NoSchedule" => Some(TaintEffect::NoSchedule),
        "PreferNoSchedule" => Some(TaintEffect::PreferNoSchedule),
        "NoExecute" => Some(TaintEffect::NoExecute),
        _ => None,
    }
}
