//! Bootstrap objects: the system namespaces, the system priority classes and upstream's default RBAC policy (upstream:
//! the `rbac/bootstrap-roles` and `scheduling/bootstrap-system-priority-classes` post-start hooks).

use parking_lot::Mutex;
use std::sync::Arc;

use http::HeaderMap;
use rhumb_api::JsonObject;
use rhumb_auth::User;
use rhumb_auth::bootstrap::{ReconcileAction, objects, reconcile};
use rhumb_meta::ObjectKey;
use rhumb_store::{ExpectedRevision, OPERATIONS_MAX, Transaction};
use serde_json::{Value, json};

use crate::ServerState;
use crate::objects::{ObjectMetadata, ObjectMetadataMut};
use crate::request::{QueryParameters, ResourcePath};
use crate::resources::{AllocationHold, RequestContext, with_operations};

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
pub(super) async fn create_bootstrap_objects(state: &Arc<ServerState>) -> Result<(), String> {
    create_namespaces(state).await?;
    let mut batch = WriteBatch::new(state);
    for (name, value, description) in PRIORITY_CLASSES {
        batch
            .add_if_absent(
                "scheduling.k8s.io",
                "priorityclasses",
                None,
                json!({"metadata": {"name": name}, "value": value, "description": description}),
            )
            .await?;
    }
    for bootstrap_object in objects() {
        let namespace = Some(bootstrap_object.namespace).filter(|namespace| !namespace.is_empty());
        let decide = |existing: Option<&JsonObject>| match reconcile(
            bootstrap_object.kind,
            &bootstrap_object.object,
            existing,
        ) {
            ReconcileAction::Create(object)
            | ReconcileAction::Update(object)
            | ReconcileAction::Recreate(object) => Some(object),
            ReconcileAction::Keep => None,
        };
        batch
            .add(
                RBAC,
                bootstrap_object.kind.resource(),
                namespace,
                &bootstrap_object.name,
                decide,
            )
            .await?;
    }
    batch.flush().await
}

pub(super) async fn create_namespaces(state: &Arc<ServerState>) -> Result<(), String> {
    let mut batch = WriteBatch::new(state);
    for name in NAMESPACES {
        batch
            .add_if_absent("", "namespaces", None, json!({"metadata": {"name": name}}))
            .await?;
    }
    batch.flush().await
}

/// Writes by the server that are committed together.
pub(super) struct WriteBatch<'a> {
    state: &'a Arc<ServerState>,
    user: User,
    query: QueryParameters,
    headers: HeaderMap,
    transaction: Transaction,
    count: usize,
    /// Addresses and ports allocated to the objects in the batch; held until it is committed.
    allocation_holds: Vec<AllocationHold>,
}

impl<'a> WriteBatch<'a> {
    pub(super) fn new(state: &'a Arc<ServerState>) -> WriteBatch<'a> {
        WriteBatch {
            state,
            user: User::server(),
            query: QueryParameters::default(),
            headers: HeaderMap::new(),
            transaction: Transaction::new(),
            count: 0,
            allocation_holds: Vec::new(),
        }
    }

    /// Adds an object unless one of its name exists.
    pub(super) async fn add_if_absent(
        &mut self,
        group: &str,
        plural: &str,
        namespace: Option<&str>,
        object: Value,
    ) -> Result<(), String> {
        let Value::Object(object) = object else {
            return Err(format!("{plural}: not a JSON object"));
        };
        let name = object.name().to_owned();
        self.add(group, plural, namespace, &name, |existing| {
            existing.is_none().then_some(object)
        })
        .await
    }

    /// Adds the object that `decide` returns for the existing one; nothing if it returns `None`.
    pub(super) async fn add(
        &mut self,
        group: &str,
        plural: &str,
        namespace: Option<&str>,
        name: &str,
        decide: impl FnOnce(Option<&JsonObject>) -> Option<JsonObject>,
    ) -> Result<(), String> {
        let fail = |error: &dyn std::fmt::Display| format!("{plural} {name}: {error}");
        let resource = self
            .state
            .registry
            .find(group, plural)
            .ok_or_else(|| fail(&"no such resource"))?;
        let storage = resource
            .storage
            .as_ref()
            .ok_or_else(|| fail(&"is not stored"))?;
        let version = resource
            .versions
            .first()
            .ok_or_else(|| fail(&"has no version"))?;
        let key = ObjectKey::new(namespace, name).map_err(|error| fail(&error))?;
        let existing = storage.cache.get(&key).map_err(|error| fail(&error))?;
        let existing_object: Option<JsonObject> = existing
            .as_ref()
            .and_then(|entry| serde_json::from_slice(entry.json_slice()).ok());
        let Some(mut object) = decide(existing_object.as_ref()) else {
            return Ok(());
        };
        let target = ResourcePath {
            group: group.to_owned(),
            version: version.served.version.to_string(),
            namespace: namespace.map(str::to_owned),
            resource: plural.to_owned(),
            name: Some(name.to_owned()),
            subresource: None,
            rest: Vec::new(),
        };
        let context = RequestContext {
            state: self.state,
            resource,
            version,
            subresource: None,
            resource_path: &target,
            verb: "create",
            query: &self.query,
            headers: &self.headers,
            body: bytes::Bytes::new(),
            user: &self.user,
            now: self.state.clock.wall(),
            warnings: Mutex::new(Vec::new()),
            audit_annotations: None,
            is_internal: true,
            in_flight_permit: None,
            audit_recorder: None,
        };
        let mut allocation_operations = Vec::new();
        if existing.is_none() {
            if let Some(namespace) = namespace {
                object.set_meta("namespace", namespace);
            }
            let rejection_error = |status: rhumb_meta::Status| fail(&status.message);
            self.allocation_holds.push(
                context
                    .admit_and_prepare_create(&mut object)
                    .await
                    .map_err(rejection_error)?,
            );
            allocation_operations = context
                .allocation_operations(None, Some(&object))
                .map_err(rejection_error)?;
        }
        let bytes = context
            .encode_for_storage(&mut object)
            .map_err(|status| fail(&status.message))?;
        let expect = existing.map_or(ExpectedRevision::Absent, |entry| {
            ExpectedRevision::At(entry.revision())
        });
        let transaction = std::mem::take(&mut self.transaction);
        self.count += 1 + allocation_operations.len();
        let object_operation = transaction.put(storage.prefix.object(&key), bytes, expect);
        self.transaction = with_operations(object_operation, allocation_operations);
        if self.count > OPERATIONS_MAX / 2 {
            self.flush().await?;
        }
        Ok(())
    }

    /// Commits the batch. A conflict is ignored: another server on the same store has written the same objects.
    pub(super) async fn flush(&mut self) -> Result<(), String> {
        let transaction = std::mem::take(&mut self.transaction);
        if std::mem::take(&mut self.count) == 0 {
            return Ok(());
        }
        let _claims = std::mem::take(&mut self.allocation_holds);
        match self.state.store.commit(transaction).await {
            Ok(revision) => {
                self.state.await_applied(revision).await;
                Ok(())
            }
            Err(rhumb_store::Error::Conflict(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }
}
