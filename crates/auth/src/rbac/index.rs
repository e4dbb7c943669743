//! The writer's side of the policy.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Kind;
use super::objects::{Binding, Role, StoredBinding, StoredRole};
use super::policy::Policy;

/// Takes roles and bindings as they change, and publishes the policy that they make.
///
/// A change costs the size of the object and the logarithm of all others; readers never wait.
#[derive(Debug, Default)]
pub struct PolicyIndex {
    /// Held by the writer from the draft to its publication, so that no change is lost to another.
    draft: Mutex<Policy>,
    current: ArcSwap<Policy>,
}

/// An object that is no role or binding. It counts as absent: what cannot be read grants nothing.
#[derive(Debug, thiserror::Error)]
#[error("{} {namespace}/{name} cannot be read and grants nothing: {source}", kind.as_str())]
pub struct ApplyError {
    kind: Kind,
    namespace: String,
    name: String,
    source: serde_json::Error,
}

/// What the index keeps of an object.
pub(super) enum Entry {
    Role(Role),
    Binding(Binding),
}

impl PolicyIndex {
    pub fn new() -> Self {
        Self::default()
    }

    /// The policy of this moment. Cheap; take it once per request.
    pub fn policy(&self) -> Arc<Policy> {
        self.current.load_full()
    }

    /// Takes in one object, or that it is gone. The namespace of cluster-wide kinds is empty.
    pub fn apply(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        object: Option<&Map<String, Value>>,
    ) -> Result<(), ApplyError> {
        self.apply_all([(kind, namespace, name, object)])
    }

    /// Takes in many objects and publishes once; the first that cannot be read is told, after all were taken.
    pub fn apply_all<'a>(
        &self,
        changes: impl IntoIterator<Item = (Kind, &'a str, &'a str, Option<&'a Map<String, Value>>)>,
    ) -> Result<(), ApplyError> {
        let mut draft = self.draft.lock().unwrap_or_else(PoisonError::into_inner);
        let mut outcome = Ok(());
        for (kind, namespace, name, object) in changes {
            let entry = object.map(|object| read(kind, namespace, name, object));
            let entry = match entry.transpose() {
                Ok(entry) => entry,
                Err(source) => {
                    outcome = outcome.and(Err(ApplyError {
                        kind,
                        namespace: namespace.to_owned(),
                        name: name.to_owned(),
                        source,
                    }));
                    None
                }
            };
            draft.set(kind, namespace, name, entry);
        }
        self.current.store(Arc::new(draft.clone()));
        outcome
    }
}

fn read(
    kind: Kind,
    namespace: &str,
    name: &str,
    object: &Map<String, Value>,
) -> Result<Entry, serde_json::Error> {
    Ok(match kind {
        Kind::ClusterRole | Kind::Role => Entry::Role(StoredRole::deserialize(object)?.into_role()),
        Kind::ClusterRoleBinding | Kind::RoleBinding => {
            let stored = StoredBinding::deserialize(object)?;
            Entry::Binding(Binding {
                namespace: namespace.into(),
                name: name.into(),
                role: stored.role_ref,
                subjects: stored.subjects,
            })
        }
    })
}
