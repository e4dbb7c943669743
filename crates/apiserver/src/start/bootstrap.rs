//! Bootstrap objects: the system namespaces, the system priority classes and upstream's default RBAC policy (upstream:
//! the `rbac/bootstrap-roles` and `scheduling/bootstrap-system-priority-classes` post-start hooks).

use std::sync::Arc;

use rhumb_api::JsonObject;
use rhumb_auth::bootstrap::{BootstrapObject, ReconcileAction, objects, reconcile};
use serde_json::{Value, json};

use rhumb_registry::Registry;
use rhumb_registry::write::{BatchChange, BatchObjectRef, WriteBatch};

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
/// Upstream's system priority classes: name, value, description.
const PRIORITY_CLASSES: [(&str, i64, &str); 2] = [
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

const RBAC: &str = "rbac.authorization.k8s.io";

/// Creates missing objects in as few commits as possible. Changes by administrators are kept, except where upstream's
/// reconciliation of default roles overrides them too.
pub(super) async fn create_bootstrap_objects(registry: &Arc<Registry>) -> Result<(), String> {
    create_namespaces(registry).await?;
    let mut batch = WriteBatch::new(registry);
    for (name, value, description) in PRIORITY_CLASSES {
        let class = json!({"metadata": {"name": name}, "value": value, "description": description});
        let reference = BatchObjectRef {
            group: "scheduling.k8s.io",
            plural: "priorityclasses",
            namespace: None,
            name,
        };
        let create = |existing: Option<&JsonObject>| create_if_absent(existing, class);
        batch.add(reference, create).await?;
    }
    for bootstrap_object in objects().map_err(|error| error.to_string())? {
        reconcile_rbac(&mut batch, &bootstrap_object).await?;
    }
    // A conflict means that another server on the same store has written the same objects.
    batch.commit().await.map(|_| ())
}

/// Creates or completes one object of the default RBAC policy.
async fn reconcile_rbac(
    batch: &mut WriteBatch<'_>,
    bootstrap_object: &BootstrapObject,
) -> Result<(), String> {
    let namespace = bootstrap_object.namespace;
    let reference = BatchObjectRef {
        group: RBAC,
        plural: bootstrap_object.kind.resource(),
        namespace: Some(namespace).filter(|namespace| !namespace.is_empty()),
        name: &bootstrap_object.name,
    };
    let (mut exists, mut recreated) = (false, None);
    let decide = |existing: Option<&JsonObject>| {
        exists = existing.is_some();
        match reconcile(bootstrap_object.kind, &bootstrap_object.object, existing) {
            ReconcileAction::Create(object) => Some(BatchChange::Create(object)),
            ReconcileAction::Update(object) => Some(BatchChange::Update(object)),
            ReconcileAction::Recreate(object) => {
                recreated = Some(object);
                Some(BatchChange::Delete)
            }
            ReconcileAction::Keep => None,
        }
    };
    match batch.add(reference, decide).await {
        // What an administrator or an earlier version stored must not keep the server from starting.
        Err(error) if exists => {
            tracing::warn!(
                error,
                "failed to update an object of the default RBAC policy; it stays as it is"
            );
            return Ok(());
        }
        added => added?,
    }
    batch.commit_if_full().await?;
    if let Some(object) = recreated {
        // Committed at once, so that the object is missing for as short as possible.
        batch.commit().await?;
        let create = |existing: Option<&JsonObject>| create_if_absent(existing, object.into());
        batch.add(reference, create).await?;
        batch.commit().await?;
    }
    Ok(())
}

pub(super) async fn create_namespaces(registry: &Arc<Registry>) -> Result<(), String> {
    let mut batch = WriteBatch::new(registry);
    for name in NAMESPACES {
        let namespace = json!({"metadata": {"name": name}});
        let reference = BatchObjectRef {
            group: "",
            plural: "namespaces",
            namespace: None,
            name,
        };
        let create = |existing: Option<&JsonObject>| create_if_absent(existing, namespace);
        batch.add(reference, create).await?;
    }
    batch.commit().await.map(|_| ())
}

/// A change that creates the object unless there is one of its name.
pub(super) fn create_if_absent(
    existing: Option<&JsonObject>,
    object: Value,
) -> Option<BatchChange> {
    match (existing, object) {
        (None, Value::Object(object)) => Some(BatchChange::Create(object)),
        _ => None,
    }
}
