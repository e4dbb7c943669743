//! Services and controllers from JSON.

use std::collections::BTreeMap;

use rhumb_api::partial::{Text, or_default};
use rhumb_meta::labels::{LabelSelector, Selector};
use serde::Deserialize;

use super::parts::{Metadata, selector};
use crate::model::{Group, GroupKey, GroupKind};

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "S: Deserialize<'de>"))]
struct Wire<'a, S> {
    #[serde(borrow, default, deserialize_with = "or_default")]
    metadata: Metadata<'a>,
    #[serde(default = "no_spec")]
    spec: Spec<S>,
}

#[derive(Debug, Deserialize)]
struct Spec<S> {
    #[serde(default = "none")]
    selector: Option<S>,
}

fn none<S>() -> Option<S> {
    None
}

fn no_spec<S>() -> Spec<S> {
    Spec { selector: None }
}

type Pairs<'a> = BTreeMap<Text<'a>, Text<'a>>;

impl Group {
    /// Reads one from its JSON.
    pub fn from_json(kind: GroupKind, json: &[u8]) -> Result<Group, serde_json::Error> {
        let of = |metadata: &Metadata<'_>, selector: Selector| Group {
            key: GroupKey {
                kind,
                namespace: (*metadata.namespace).into(),
                name: (*metadata.name).into(),
            },
            selector,
        };
        Ok(match kind {
            GroupKind::Service | GroupKind::ReplicationController => {
                let wire: Wire<'_, Pairs<'_>> = serde_json::from_slice(json)?;
                let pairs = wire.spec.selector.as_ref();
                let selector = pairs.map(|pairs| {
                    let pairs = pairs.iter();
                    Selector::from_labels(pairs.map(|(key, value)| (&**key, &**value)))
                });
                of(&wire.metadata, selector.unwrap_or_else(Selector::nothing))
            }
            GroupKind::ReplicaSet | GroupKind::StatefulSet => {
                let wire: Wire<'_, LabelSelector> = serde_json::from_slice(json)?;
                of(&wire.metadata, selector(wire.spec.selector.as_ref()))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_are_read_as_each_kind_has_them() {
        let labels = json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]});
        for (kind, selector, expected) in [
            (GroupKind::Service, json!({"a": "b"}), "a=b"),
            (GroupKind::ReplicationController, json!({"a": "b"}), "a=b"),
            (GroupKind::ReplicaSet, labels.clone(), "a=b,c"),
            (GroupKind::StatefulSet, labels, "a=b,c"),
        ] {
            let json = json!({"metadata": {"namespace": "n", "name": "g"}, "spec": {"selector": selector}});
            let group = Group::from_json(kind, json.to_string().as_bytes()).unwrap();
            assert_eq!(group.selector.to_string(), expected, "{kind:?}");
            assert_eq!((&*group.key.namespace, &*group.key.name), ("n", "g"));
        }
        let none = Group::from_json(GroupKind::Service, b"{}").unwrap();
        assert!(none.selector.is_nothing());
    }
}
