//! Objects as they come from a watch: read once, as far as scheduling looks at them, and the rest never kept.

use std::borrow::Cow;
use std::fmt::Debug;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::Resource;
use kube::api::ObjectMeta;
use rhumb_api::partial::{Text, or_default};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::model::{Budget, Labels, Node, Pod};

/// A kind that is watched.
pub(super) trait Kind: Sized + Clone + Debug + Send + 'static {
    const KIND: &'static str;
    const GROUP: &'static str;
    const VERSION: &'static str;
    const PLURAL: &'static str;
    type Scope;

    fn read(json: &[u8]) -> Result<(ObjectMeta, Self), serde_json::Error>;
}

/// An object of that kind, with as much of its metadata as the watch needs itself. One that cannot be read is there, but
/// says nothing: it holds up nobody else.
#[derive(Debug, Clone)]
pub(super) struct Watched<K> {
    meta: ObjectMeta,
    pub(super) object: Option<K>,
}

impl<K> Watched<K> {
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

impl<'de, K: Kind> Deserialize<'de> for Watched<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        let json = json.get().as_bytes();
        match K::read(json) {
            Ok((meta, object)) => Ok(Watched {
                meta,
                object: Some(object),
            }),
            Err(problem) => {
                let head: Head<'_> =
                    serde_json::from_slice(json).map_err(serde::de::Error::custom)?;
                let meta = head.metadata.meta();
                tracing::warn!(kind = K::KIND, name = meta.name, %problem, "cannot be read");
                Ok(Watched { meta, object: None })
            }
        }
    }
}

impl<K: Kind> Resource for Watched<K> {
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
struct Head<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: Metadata<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    namespace: Text<'a>,
    #[serde(borrow)]
    uid: Text<'a>,
    #[serde(borrow)]
    resource_version: Text<'a>,
}

impl Metadata<'_> {
    fn meta(&self) -> ObjectMeta {
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

fn meta(json: &[u8]) -> Result<ObjectMeta, serde_json::Error> {
    let head: Head<'_> = serde_json::from_slice(json)?;
    Ok(head.metadata.meta())
}

impl Kind for Pod {
    const KIND: &'static str = "Pod";
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const PLURAL: &'static str = "pods";
    type Scope = NamespaceResourceScope;

    fn read(json: &[u8]) -> Result<(ObjectMeta, Pod), serde_json::Error> {
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

impl Kind for Node {
    const KIND: &'static str = "Node";
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const PLURAL: &'static str = "nodes";
    type Scope = ClusterResourceScope;

    fn read(json: &[u8]) -> Result<(ObjectMeta, Node), serde_json::Error> {
        Ok((meta(json)?, Node::from_json(json)?))
    }
}

impl Kind for Budget {
    const KIND: &'static str = "PodDisruptionBudget";
    const GROUP: &'static str = "policy";
    const VERSION: &'static str = "v1";
    const PLURAL: &'static str = "poddisruptionbudgets";
    type Scope = NamespaceResourceScope;

    fn read(json: &[u8]) -> Result<(ObjectMeta, Budget), serde_json::Error> {
        Ok((meta(json)?, Budget::from_json(json)?))
    }
}

/// A namespace is nothing but its labels.
#[derive(Debug, Clone)]
pub(super) struct Namespace {
    pub(super) labels: Labels,
}

impl Kind for Namespace {
    const KIND: &'static str = "Namespace";
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const PLURAL: &'static str = "namespaces";
    type Scope = ClusterResourceScope;

    fn read(json: &[u8]) -> Result<(ObjectMeta, Namespace), serde_json::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Wire<'a> {
            #[serde(borrow, deserialize_with = "or_default")]
            metadata: Labelled<'a>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Labelled<'a> {
            #[serde(borrow, deserialize_with = "or_default")]
            labels: std::collections::BTreeMap<Text<'a>, Text<'a>>,
        }
        let wire: Wire<'_> = serde_json::from_slice(json)?;
        let labels = wire.metadata.labels.iter();
        let labels = labels.map(|(key, value)| (&**key, &**value)).collect();
        Ok((meta(json)?, Namespace { labels }))
    }
}

#[cfg(test)]
mod tests {
    use kube::api::{ObjectList, WatchEvent};
    use kube::core::Resource as _;

    use super::*;

    const POD: &str = r#"{"metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7"}, "spec": {"nodeName": "a"}}"#;

    #[test]
    fn objects_are_read_from_lists_and_watches() {
        let list = format!(
            r#"{{"kind": "PodList", "apiVersion": "v1", "metadata": {{"resourceVersion": "9"}}, "items": [{POD}]}}"#
        );
        let list: ObjectList<Watched<Pod>> = serde_json::from_str(&list).unwrap();
        let event = format!(r#"{{"type": "MODIFIED", "object": {POD}}}"#);
        let event: WatchEvent<Watched<Pod>> = serde_json::from_str(&event).unwrap();
        let WatchEvent::Modified(watched) = event else {
            panic!("{event:?}");
        };
        for one in [&list.items[0], &watched] {
            assert_eq!((one.uid(), one.name(), one.namespace()), ("u", "p", "n"));
            assert_eq!(one.meta().resource_version.as_deref(), Some("7"));
            let pod = one.object.as_ref().unwrap();
            assert_eq!(pod.node_name.as_deref(), Some("a"));
        }
    }

    #[test]
    fn one_that_cannot_be_read_is_there_and_says_nothing() {
        let text = POD.replace(r#""a""#, "[]");
        let watched: Watched<Pod> = serde_json::from_str(&text).unwrap();
        assert!(watched.object.is_none());
        assert_eq!(watched.uid(), "u");
        assert_eq!(watched.meta().resource_version.as_deref(), Some("7"));
    }

    #[test]
    fn labels_of_namespaces_are_read() {
        let text = r#"{"metadata": {"name": "n", "labels": {"a": "b"}}}"#;
        let watched: Watched<Namespace> = serde_json::from_str(text).unwrap();
        assert_eq!(watched.name(), "n");
        assert_eq!(watched.object.unwrap().labels.get("a"), Some("b"));
    }
}
