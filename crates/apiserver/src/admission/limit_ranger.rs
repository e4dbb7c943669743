//! Pods and claims stay within the limit ranges of their namespace; containers that say nothing get their defaults.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use async_trait::async_trait;
use rhumb_api::{Object, fields};
use rhumb_cache::{Cache, Entry, Snapshot};
use rhumb_meta::{Revision, Status};
use rhumb_quota::LimitRange;

use super::{Attributes, Operation, Plugin, Step};
use crate::objects::Metadata;

#[derive(Debug, Default)]
pub(super) struct LimitRanger {
    /// Of the limit ranges; nothing where they are not served.
    cache: OnceLock<Option<Cache>>,
    ranges: Ranges,
}

/// What a write is about, if limit ranges concern it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Concern {
    Pod,
    Claim,
}

impl Concern {
    /// A pod's containers change after its creation by a resize only. Whoever is being deleted may do as they like.
    fn of(attributes: &Attributes<'_>) -> Option<Concern> {
        let concern = match (attributes.operation, attributes.subresource()) {
            (Operation::Create, "") if attributes.is_below("", "pods") => Concern::Pod,
            (Operation::Update, "resize") if attributes.is_below("", "pods") => Concern::Pod,
            (Operation::Create | Operation::Update, "")
                if attributes.is_below("", "persistentvolumeclaims") =>
            {
                Concern::Claim
            }
            _ => return None,
        };
        let is_going = attributes.old.is_some_and(Metadata::is_deleting);
        (!is_going).then_some(concern)
    }
}

impl LimitRanger {
    /// The limit ranges of the namespace, in the order of their names.
    fn ranges(&self, attributes: &Attributes<'_>) -> Result<Option<Arc<[Known]>>, Status> {
        let registry = &attributes.call.api.registry;
        let cache = self.cache.get_or_init(|| {
            let resource = registry.find("", "limitranges")?;
            Some(resource.storage.as_ref()?.cache.clone())
        });
        let (Some(cache), Some(namespace)) = (cache, attributes.call.namespace()) else {
            return Ok(None);
        };
        self.ranges.of(&cache.snapshot(), namespace).map_err(|error| {
            tracing::error!(namespace, error, "a limit range cannot be read");
            let operation = attributes.operation.as_str();
            match attributes.asked() {
                Ok(asked) => attributes.forbidden(
                    None,
                    format_args!(
                        "unable to {operation} {} at this time because there was an error enforcing limit ranges",
                        asked.names.resource
                    ),
                ),
                Err(status) => status,
            }
        })
    }
}

#[async_trait]
impl Plugin for LimitRanger {
    fn takes_part(&self, _step: Step, attributes: &Attributes<'_>) -> bool {
        Concern::of(attributes).is_some()
    }

    async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Object>,
    ) -> Result<(), Status> {
        if let (Some(Concern::Pod), Some(pod)) = (Concern::of(attributes), object) {
            let ranges = self.ranges(attributes)?;
            for known in ranges.iter().flat_map(|all| all.iter()) {
                known.range.fill(pod);
            }
            // What a pod says as a whole follows from what its containers say.
            if ranges.is_some() && fields::get(pod, "spec.resources").is_some() {
                let call = attributes.call;
                call.api.defaults.apply(call.storage()?.schema, pod);
            }
        }
        Ok(())
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
    ) -> Result<(), Status> {
        let (Some(concern), Some(it)) = (Concern::of(attributes), object) else {
            return Ok(());
        };
        for known in self.ranges(attributes)?.iter().flat_map(|all| all.iter()) {
            let checked = match concern {
                Concern::Pod => known.range.check_pod(it),
                Concern::Claim => known.range.check_claim(it),
            };
            checked.map_err(|violations| attributes.forbidden(object, violations))?;
        }
        Ok(())
    }
}

/// The limit ranges of namespaces, each read when it is first asked for. A change is noticed by the next who asks
/// for that namespace, and costs nobody else anything.
#[derive(Debug, Default)]
struct Ranges(RwLock<HashMap<Box<str>, Arc<[Known]>>>);

#[derive(Debug)]
struct Known {
    name: Box<str>,
    revision: Revision,
    range: Arc<LimitRange>,
}

impl Known {
    fn is(&self, entry: &Entry) -> bool {
        self.revision == entry.revision() && *self.name == *entry.key().name()
    }
}

impl Ranges {
    /// `None` if the namespace has none.
    fn of(&self, snapshot: &Snapshot, namespace: &str) -> Result<Option<Arc<[Known]>>, String> {
        let entries = || snapshot.range(Some(namespace), None);
        if entries().next().is_none() {
            return Ok(None);
        }
        let known = self.known(namespace);
        if let Some(known) = known.as_ref()
            && entries().count() == known.len()
            && entries()
                .zip(known.iter())
                .all(|(entry, known)| known.is(entry))
        {
            return Ok(Some(known.clone()));
        }
        let before = known.as_deref().unwrap_or_default();
        let read: Result<Arc<[Known]>, String> = entries().map(|it| again(it, before)).collect();
        let read = read?;
        self.keep(snapshot, namespace, read.clone());
        Ok(Some(read))
    }

    fn known(&self, namespace: &str) -> Option<Arc<[Known]>> {
        let ranges = self.0.read().unwrap_or_else(PoisonError::into_inner);
        ranges.get(namespace).cloned()
    }

    /// Once most of what is kept must be of namespaces that have no ranges any more, those are forgotten.
    fn keep(&self, snapshot: &Snapshot, namespace: &str, read: Arc<[Known]>) {
        let mut ranges = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if ranges.len() > 2 * snapshot.len() {
            ranges.retain(|namespace, _| snapshot.range(Some(namespace), None).next().is_some());
        }
        ranges.insert(namespace.into(), read);
    }
}

/// What an entry says; what was read of it before is not read again.
fn again(entry: &Arc<Entry>, before: &[Known]) -> Result<Known, String> {
    let range = match before.iter().find(|known| known.is(entry)) {
        Some(known) => known.range.clone(),
        None => Arc::new(read(entry)?),
    };
    Ok(Known {
        name: entry.key().name().into(),
        revision: entry.revision(),
        range,
    })
}

fn read(entry: &Entry) -> Result<LimitRange, String> {
    let why = |error: &dyn std::fmt::Display| format!("{}: {error}", entry.key().name());
    let object: Object = serde_json::from_slice(entry.json_slice()).map_err(|error| why(&error))?;
    LimitRange::read(&object).map_err(|error| why(&error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Server, Setup};

    async fn put(server: &Server, namespace: &str, name: &str) {
        let range = json!({
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": name},
            "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]},
        });
        let path = format!("/api/v1/namespaces/{namespace}/limitranges");
        assert_eq!(server.create(&path, range).await.0, 201);
    }

    #[tokio::test]
    async fn what_changes_is_read_again_and_nothing_else() {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::open(directory.path(), Setup::default()).await;
        let resource = server.api.registry.find("", "limitranges").expect("served");
        let cache = &resource.storage.as_ref().expect("stored").cache;
        let ranges = Ranges::default();
        let of = |namespace: &str| ranges.of(&cache.snapshot(), namespace).expect("readable");
        assert!(of("default").is_none());
        for namespace in ["default", "kube-system", "kube-public"] {
            put(&server, namespace, "b").await;
        }
        let before = of("default").expect("a range");
        assert!(of("kube-system").is_some());
        assert!(of("kube-public").is_some());
        put(&server, "kube-system", "c").await;
        let unchanged = of("default").expect("a range");
        assert!(Arc::ptr_eq(&before, &unchanged));
        put(&server, "default", "a").await;
        let now = of("default").expect("ranges");
        let names: Vec<&str> = now.iter().map(|known| &*known.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(Arc::ptr_eq(&now[1].range, &before[0].range));
        // What nobody has any more is forgotten.
        for path in [
            "kube-system/limitranges/b",
            "kube-system/limitranges/c",
            "kube-public/limitranges/b",
            "default/limitranges/b",
        ] {
            let (code, _) = server.delete(&format!("/api/v1/namespaces/{path}")).await;
            assert_eq!(code, 200);
        }
        assert!(of("kube-system").is_none());
        assert_eq!(of("default").map(|all| all.len()), Some(1));
        let kept: Vec<Box<str>> = ranges.0.read().expect("no panic").keys().cloned().collect();
        assert_eq!(kept, ["default".into()]);
    }
}
