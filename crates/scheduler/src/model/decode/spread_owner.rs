//! Decodes the selectors of services and controllers.

use std::collections::BTreeMap;

use rhumb_api::partial_decode::{BorrowedStr, or_default};
use rhumb_meta::labels::{LabelSelector, Selector};
use serde::Deserialize;

use super::common::{WireObjectMeta, decode_selector};
use crate::model::{SpreadOwner, SpreadOwnerKey, SpreadOwnerKind};

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de>"))]
struct WireSpreadOwner<'a, S> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    metadata: WireObjectMeta<'a>,
    #[serde(default = "no_spec")]
    spec: WireSpreadOwnerSpec<S>,
}

#[derive(Debug, Deserialize)]
struct WireSpreadOwnerSpec<S> {
    #[serde(default = "no_selector")]
    selector: Option<S>,
}

fn no_selector<S>() -> Option<S> {
    None
}

fn no_spec<S>() -> WireSpreadOwnerSpec<S> {
    WireSpreadOwnerSpec { selector: None }
}

type WireLabels<'a> = BTreeMap<BorrowedStr<'a>, BorrowedStr<'a>>;

impl SpreadOwner {
    /// Decodes a service or controller from JSON.
    pub fn from_json(kind: SpreadOwnerKind, json: &[u8]) -> Result<SpreadOwner, serde_json::Error> {
        let of = |metadata: &WireObjectMeta<'_>, selector: Selector| SpreadOwner {
            key: SpreadOwnerKey {
                kind,
                namespace: (*metadata.namespace).into(),
                name: (*metadata.name).into(),
            },
            selector,
        };
        Ok(match kind {
            SpreadOwnerKind::Service | SpreadOwnerKind::ReplicationController => {
                let wire: WireSpreadOwner<'_, WireLabels<'_>> = serde_json::from_slice(json)?;
                let pairs = wire.spec.selector.as_ref();
                let selector = pairs.map(|pairs| {
                    let pairs = pairs.iter();
                    Selector::from_labels(pairs.map(|(key, value)| (&**key, &**value)))
                });
                of(&wire.metadata, selector.unwrap_or_else(Selector::nothing))
            }
            SpreadOwnerKind::ReplicaSet | SpreadOwnerKind::StatefulSet => {
                let wire: WireSpreadOwner<'_, LabelSelector> = serde_json::from_slice(json)?;
                of(&wire.metadata, decode_selector(wire.spec.selector.as_ref()))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_are_decoded_in_the_format_of_each_kind() {
        let labels = json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]});
        for (kind, selector, expected) in [
            (SpreadOwnerKind::Service, json!({"a": "b"}), "a=b"),
            (
                SpreadOwnerKind::ReplicationController,
                json!({"a": "b"}),
                "a=b",
            ),
            (SpreadOwnerKind::ReplicaSet, labels.clone(), "a=b,c"),
            (SpreadOwnerKind::StatefulSet, labels, "a=b,c"),
        ] {
            let json = json!({"metadata": {"namespace": "n", "name": "g"}, "spec": {"selector": selector}});
            let group = SpreadOwner::from_json(kind, json.to_string().as_bytes()).unwrap();
            assert_eq!(group.selector.to_string(), expected, "{kind:?}");
            assert_eq!((&*group.key.namespace, &*group.key.name), ("n", "g"));
        }
        let none = SpreadOwner::from_json(SpreadOwnerKind::Service, b"{}").unwrap();
        assert!(none.selector.is_nothing());
    }
}
