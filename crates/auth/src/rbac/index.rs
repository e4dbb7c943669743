//! Builds and publishes policy snapshots from changes of roles and bindings.

use parking_lot::Mutex;
use std::sync::Arc;

use arc_swap::ArcSwap;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::RbacKind;
use super::objects::{IndexedBinding, IndexedRole, StoredBinding, StoredRole};
use super::policy::RbacPolicy;
use crate::{Attributes, Authorizer, Decision};

/// Applies changes of roles and bindings, and publishes the resulting policy.
///
/// A change costs time linear in the size of the object and logarithmic in the number of others; readers never block.
#[derive(Debug, Default)]
pub struct RbacPolicyIndex {
    /// Locked until the new policy is published, so that concurrent changes are not lost.
    draft: Mutex<RbacPolicy>,
    current: ArcSwap<RbacPolicy>,
}

/// An object that cannot be parsed. It is treated as absent, so that it grants nothing.
#[derive(Debug, thiserror::Error)]
#[error("failed to parse {} {namespace}/{name}: {source}", kind.as_str())]
pub struct InvalidRbacObjectError {
    kind: RbacKind,
    namespace: String,
    name: String,
    source: serde_json::Error,
}

/// A parsed role or binding.
pub(super) enum RbacEntry {
    Role(IndexedRole),
    Binding(IndexedBinding),
}

impl Authorizer for RbacPolicyIndex {
    fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        self.current.load().authorize(attributes)
    }
}

impl RbacPolicyIndex {
    pub fn new() -> Self {
        Self::default()
    }

    /// The current policy. Cheap; load it once per request.
    pub fn policy(&self) -> Arc<RbacPolicy> {
        self.current.load_full()
    }

    /// Adds or replaces an object, or removes it if `object` is `None`. Cluster-scoped kinds have an empty namespace.
    pub fn apply(
        &self,
        kind: RbacKind,
        namespace: &str,
        name: &str,
        object: Option<&Map<String, Value>>,
    ) -> Result<(), InvalidRbacObjectError> {
        self.apply_all([(kind, namespace, name, object)])
    }

    /// Applies many changes and publishes once. Objects that cannot be parsed do not stop the others; returns the first
    /// error.
    pub fn apply_all<'a>(
        &self,
        changes: impl IntoIterator<Item = (RbacKind, &'a str, &'a str, Option<&'a Map<String, Value>>)>,
    ) -> Result<(), InvalidRbacObjectError> {
        let mut draft = self.draft.lock();
        let mut outcome = Ok(());
        for (kind, namespace, name, object) in changes {
            let entry = object.map(|object| read(kind, namespace, name, object));
            let entry = match entry.transpose() {
                Ok(entry) => entry,
                Err(source) => {
                    outcome = outcome.and(Err(InvalidRbacObjectError {
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
    kind: RbacKind,
    namespace: &str,
    name: &str,
    object: &Map<String, Value>,
) -> Result<RbacEntry, serde_json::Error> {
    Ok(match kind {
        RbacKind::ClusterRole | RbacKind::Role => {
            RbacEntry::Role(StoredRole::deserialize(object)?.into_role())
        }
        RbacKind::ClusterRoleBinding | RbacKind::RoleBinding => {
            let stored = StoredBinding::deserialize(object)?;
            RbacEntry::Binding(IndexedBinding {
                namespace: namespace.into(),
                name: name.into(),
                role: stored.role_ref,
                subjects: stored.subjects,
            })
        }
    })
}
