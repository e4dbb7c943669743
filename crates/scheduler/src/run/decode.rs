//! Decodes list and watch responses directly into the scheduler's model types; all other fields are skipped.

use std::borrow::Cow;
use std::fmt::Debug;
use std::marker::PhantomData;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::Resource;
use kube::api::ObjectMeta;
use rhumb_api::partial_decode::{BorrowedStr, or_default};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::model::{DisruptionBudget, Labels, Node, Pod, SpreadOwner, SpreadOwnerKind};

/// A kind that can be decoded from a watch.
pub(super) trait DecodableKind: Sized + Clone + Debug + Send + 'static {
    const KIND: &'static str;
    const GROUP: &'static str;
    const VERSION: &'static str;
    const PLURAL: &'static str;
    type Scope;

    fn decode(json: &[u8]) -> Result<(ObjectMeta, Self), serde_json::Error>;
}

/// A watched object with the metadata that the reflector needs. `object` is `None` if it cannot be decoded, so that one
/// malformed object does not stop the watch.
#[derive(Debug, Clone)]
pub(super) struct WatchedObject<K> {
    meta: ObjectMeta,
    pub(super) object: Option<K>,
}

impl<K> WatchedObject<K> {
    pub(super) fn uid(&self) -> &str {
        self.meta.uid.as_deref().unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        self.meta.name.as_deref().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &str {
        self.meta.namespace.as_deref().unwrap_or_default()
    }
}

impl<'de, K: DecodableKind> Deserialize<'de> for WatchedObject<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        let json = json.get().as_bytes();
        match K::decode(json) {
            Ok((meta, object)) => Ok(WatchedObject {
                meta,
                object: Some(object),
            }),
            Err(error) => {
                let head: ObjectHeader<'_> =
                    serde_json::from_slice(json).map_err(serde::de::Error::custom)?;
                let meta = head.metadata.object_meta();
                tracing::warn!(
                    kind = K::KIND,
                    namespace = meta.namespace,
                    name = meta.name,
                    %error,
                    "failed to decode object; ignoring it"
                );
                Ok(WatchedObject { meta, object: None })
            }
        }
    }
}

impl<K: DecodableKind> Resource for WatchedObject<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        K::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        K::VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ObjectHeader<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: HeaderMetadata<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct HeaderMetadata<'a> {
    #[serde(borrow)]
    name: BorrowedStr<'a>,
    #[serde(borrow)]
    namespace: BorrowedStr<'a>,
    #[serde(borrow)]
    uid: BorrowedStr<'a>,
    #[serde(borrow)]
    resource_version: BorrowedStr<'a>,
}

impl HeaderMetadata<'_> {
    fn object_meta(&self) -> ObjectMeta {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        ObjectMeta {
            name: text(&self.name),
            namespace: text(&self.namespace),
            uid: text(&self.uid),
            resource_version: text(&self.resource_version),
            ..ObjectMeta::default()
        }
    }
}

fn decode_object_meta(json: &[u8]) -> Result<ObjectMeta, serde_json::Error> {
    let head: ObjectHeader<'_> = serde_json::from_slice(json)?;
    Ok(head.metadata.object_meta())
}

impl DecodableKind for Pod {
    const KIND: &'static str = "Pod";
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const PLURAL: &'static str = "pods";
    type Scope = NamespaceResourceScope;

    fn decode(json: &[u8]) -> Result<(ObjectMeta, Pod), serde_json::Error> {
        let pod = Pod::from_json(json)?;
        let meta = ObjectMeta {
            name: Some(pod.key.name.to_string()),
            namespace: Some(pod.key.namespace.to_string()),
            uid: Some(pod.uid.to_string()),
            resource_version: Some(pod.resource_version.to_string()),
            ..ObjectMeta::default()
        };
        Ok((meta, pod))
    }
}

impl DecodableKind for Node {
    const KIND: &'static str = "Node";
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const PLURAL: &'static str = "nodes";
    type Scope = ClusterResourceScope;

    fn decode(json: &[u8]) -> Result<(ObjectMeta, Node), serde_json::Error> {
        Ok((decode_object_meta(json)?, Node::from_json(json)?))
    }
}

impl DecodableKind for DisruptionBudget {
    const KIND: &'static str = "PodDisruptionBudget";
    const GROUP: &'static str = "policy";
    const VERSION: &'static str = "v1";
    const PLURAL: &'static str = "poddisruptionbudgets";
    type Scope = NamespaceResourceScope;

    fn decode(json: &[u8]) -> Result<(ObjectMeta, DisruptionBudget), serde_json::Error> {
        Ok((
            decode_object_meta(json)?,
            DisruptionBudget::from_json(json)?,
        ))
    }
}

/// A namespace, of which scheduling reads the labels only.
#[derive(Debug, Clone)]
pub(super) struct WatchedNamespace {
    pub(super) labels: Labels,
}

impl DecodableKind for WatchedNamespace {
    const KIND: &'static str = "Namespace";
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const PLURAL: &'static str = "namespaces";
    type Scope = ClusterResourceScope;

    fn decode(json: &[u8]) -> Result<(ObjectMeta, WatchedNamespace), serde_json::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct NamespaceJson<'a> {
            #[serde(borrow, deserialize_with = "or_default")]
            metadata: NamespaceMetadataJson<'a>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct NamespaceMetadataJson<'a> {
            #[serde(borrow, deserialize_with = "or_default")]
            labels: std::collections::BTreeMap<BorrowedStr<'a>, BorrowedStr<'a>>,
        }
        let namespace: NamespaceJson<'_> = serde_json::from_slice(json)?;
        let labels = namespace.metadata.labels.iter();
        let labels = labels.map(|(key, value)| (&**key, &**value)).collect();
        Ok((decode_object_meta(json)?, WatchedNamespace { labels }))
    }
}

/// A kind whose selector groups pods for default spreading: services and controllers.
pub(super) trait SpreadOwnerResource: Clone + Debug + Send + 'static {
    const GROUP_KIND: SpreadOwnerKind;
    const KIND: &'static str;
    const GROUP: &'static str;
    const PLURAL: &'static str;
}

#[derive(Debug, Clone)]
pub(super) struct ServiceKind;

impl SpreadOwnerResource for ServiceKind {
    const GROUP_KIND: SpreadOwnerKind = SpreadOwnerKind::Service;
    const KIND: &'static str = "Service";
    const GROUP: &'static str = "";
    const PLURAL: &'static str = "services";
}

#[derive(Debug, Clone)]
pub(super) struct ReplicationControllerKind;

impl SpreadOwnerResource for ReplicationControllerKind {
    const GROUP_KIND: SpreadOwnerKind = SpreadOwnerKind::ReplicationController;
    const KIND: &'static str = "ReplicationController";
    const GROUP: &'static str = "";
    const PLURAL: &'static str = "replicationcontrollers";
}

#[derive(Debug, Clone)]
pub(super) struct ReplicaSetKind;

impl SpreadOwnerResource for ReplicaSetKind {
    const GROUP_KIND: SpreadOwnerKind = SpreadOwnerKind::ReplicaSet;
    const KIND: &'static str = "ReplicaSet";
    const GROUP: &'static str = "apps";
    const PLURAL: &'static str = "replicasets";
}

#[derive(Debug, Clone)]
pub(super) struct StatefulSetKind;

impl SpreadOwnerResource for StatefulSetKind {
    const GROUP_KIND: SpreadOwnerKind = SpreadOwnerKind::StatefulSet;
    const KIND: &'static str = "StatefulSet";
    const GROUP: &'static str = "apps";
    const PLURAL: &'static str = "statefulsets";
}

/// The pod selector of such an object.
#[derive(Debug, Clone)]
pub(super) struct DecodedSpreadOwner<G> {
    pub(super) group: SpreadOwner,
    kind: PhantomData<G>,
}

impl<G: SpreadOwnerResource> DecodableKind for DecodedSpreadOwner<G> {
    const KIND: &'static str = G::KIND;
    const GROUP: &'static str = G::GROUP;
    const VERSION: &'static str = "v1";
    const PLURAL: &'static str = G::PLURAL;
    type Scope = NamespaceResourceScope;

    fn decode(json: &[u8]) -> Result<(ObjectMeta, Self), serde_json::Error> {
        let group = SpreadOwner::from_json(G::GROUP_KIND, json)?;
        let kind = PhantomData;
        Ok((
            decode_object_meta(json)?,
            DecodedSpreadOwner { group, kind },
        ))
    }
}

#[cfg(test)]
mod tests {
    use kube::api::{ObjectList, WatchEvent};
    use kube::core::Resource as _;

    use super::*;

    const POD: &str = r#"{"metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7"}, "spec": {"nodeName": "a"}}"#;

    #[test]
    fn objects_are_decoded_from_lists_and_watches() {
        let list = format!(
            r#"{{"kind": "PodList", "apiVersion": "v1", "metadata": {{"resourceVersion": "9"}}, "items": [{POD}]}}"#
        );
        let list: ObjectList<WatchedObject<Pod>> = serde_json::from_str(&list).unwrap();
        let event = format!(r#"{{"type": "MODIFIED", "object": {POD}}}"#);
        let event: WatchEvent<WatchedObject<Pod>> = serde_json::from_str(&event).unwrap();
        let WatchEvent::Modified(modified) = event else {
            panic!("{event:?}");
        };
        for object in [&list.items[0], &modified] {
            assert_eq!(
                (object.uid(), object.name(), object.namespace()),
                ("u", "p", "n")
            );
            assert_eq!(object.meta().resource_version.as_deref(), Some("7"));
            let pod = object.object.as_ref().unwrap();
            assert_eq!(pod.node_name.as_deref(), Some("a"));
        }
    }

    #[test]
    fn an_undecodable_object_keeps_its_metadata() {
        let text = POD.replace(r#""a""#, "[]");
        let watched: WatchedObject<Pod> = serde_json::from_str(&text).unwrap();
        assert!(watched.object.is_none());
        assert_eq!(watched.uid(), "u");
        assert_eq!(watched.meta().resource_version.as_deref(), Some("7"));
    }

    #[test]
    fn namespace_labels_are_decoded() {
        let text = r#"{"metadata": {"name": "n", "labels": {"a": "b"}}}"#;
        let watched: WatchedObject<WatchedNamespace> = serde_json::from_str(text).unwrap();
        assert_eq!(watched.name(), "n");
        assert_eq!(watched.object.unwrap().labels.get("a"), Some("b"));
    }
}
