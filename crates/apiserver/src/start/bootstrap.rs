//! The objects that every cluster begins with: its namespaces, and the roles that upstream's clients expect.

use std::sync::{Arc, Mutex};

use http::HeaderMap;
use rhumb_api::Object;
use rhumb_auth::User;
use rhumb_auth::bootstrap::{Reconciled, objects, reconcile};
use rhumb_meta::ObjectKey;
use rhumb_store::{Expect, OPERATIONS_MAX, Transaction};
use serde_json::{Value, json};

use crate::Api;
use crate::objects::{Metadata, MetadataMut};
use crate::request::{Query, Target};
use crate::resources::{Call, Claim, with};

const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
/// The classes of pods that a cluster cannot do without.
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

/// Stores what is missing, in as few commits as can be. What was changed by someone stays as they left it, but
/// for what upstream puts right as well.
pub(super) async fn run(api: &Arc<Api>) -> Result<(), String> {
    create_namespaces(api).await?;
    let mut batch = Batch::new(api);
    for (name, value, description) in PRIORITY_CLASSES {
        batch
            .create(
                "scheduling.k8s.io",
                "priorityclasses",
                None,
                json!({"metadata": {"name": name}, "value": value, "description": description}),
            )
            .await?;
    }
    for wanted in objects() {
        let namespace = Some(wanted.namespace).filter(|namespace| !namespace.is_empty());
        let decide =
            |existing: Option<&Object>| match reconcile(wanted.kind, &wanted.object, existing) {
                Reconciled::Create(object)
                | Reconciled::Update(object)
                | Reconciled::Recreate(object) => Some(object),
                Reconciled::Keep => None,
            };
        batch
            .add(
                RBAC,
                wanted.kind.resource(),
                namespace,
                &wanted.name,
                decide,
            )
            .await?;
    }
    batch.flush().await
}

pub(super) async fn create_namespaces(api: &Arc<Api>) -> Result<(), String> {
    let mut batch = Batch::new(api);
    for name in NAMESPACES {
        batch
            .create("", "namespaces", None, json!({"metadata": {"name": name}}))
            .await?;
    }
    batch.flush().await
}

/// Writes that are committed together.
pub(super) struct Batch<'a> {
    api: &'a Arc<Api>,
    user: User,
    query: Query,
    headers: HeaderMap,
    transaction: Transaction,
    count: usize,
    /// What was chosen for the objects in it.
    claims: Vec<Claim>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(api: &'a Arc<Api>) -> Batch<'a> {
        Batch {
            api,
            user: User::server(),
            query: Query::default(),
            headers: HeaderMap::new(),
            transaction: Transaction::new(),
            count: 0,
            claims: Vec::new(),
        }
    }

    /// Adds an object, if there is none of its name.
    pub(super) async fn create(
        &mut self,
        group: &str,
        plural: &str,
        namespace: Option<&str>,
        object: Value,
    ) -> Result<(), String> {
        let Value::Object(object) = object else {
            return Err(format!("{plural}: no object"));
        };
        let name = object.name().to_owned();
        self.add(group, plural, namespace, &name, |existing| {
            existing.is_none().then_some(object)
        })
        .await
    }

    /// Adds an object, if `decide` wants one in place of what is there.
    pub(super) async fn add(
        &mut self,
        group: &str,
        plural: &str,
        namespace: Option<&str>,
        name: &str,
        decide: impl FnOnce(Option<&Object>) -> Option<Object>,
    ) -> Result<(), String> {
        let fail = |error: &dyn std::fmt::Display| format!("{plural} {name}: {error}");
        let resource = self
            .api
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
        let existing_object: Option<Object> = existing
            .as_ref()
            .and_then(|entry| serde_json::from_slice(entry.json_slice()).ok());
        let Some(mut object) = decide(existing_object.as_ref()) else {
            return Ok(());
        };
        let target = Target {
            group: group.to_owned(),
            version: version.served.version.to_string(),
            namespace: namespace.map(str::to_owned),
            resource: plural.to_owned(),
            name: Some(name.to_owned()),
            subresource: None,
            rest: Vec::new(),
        };
        let call = Call {
            api: self.api,
            resource,
            version,
            subresource: None,
            target: &target,
            verb: "create",
            query: &self.query,
            headers: &self.headers,
            body: bytes::Bytes::new(),
            user: &self.user,
            now: self.api.clock.wall(),
            warnings: Mutex::new(Vec::new()),
            annotations: None,
            is_own: true,
            place: None,
            recorder: None,
        };
        let mut companions = Vec::new();
        if existing.is_none() {
            if let Some(namespace) = namespace {
                object.set_meta("namespace", namespace);
            }
            let refused = |status: rhumb_meta::Status| fail(&status.message);
            self.claims
                .push(call.complete_new(&mut object).await.map_err(refused)?);
            companions = call
                .companion_operations(None, Some(&object))
                .map_err(refused)?;
        }
        let bytes = call
            .stored_bytes(&mut object)
            .map_err(|status| fail(&status.message))?;
        let expect = existing.map_or(Expect::Absent, |entry| Expect::At(entry.revision()));
        let transaction = std::mem::take(&mut self.transaction);
        self.count += 1 + companions.len();
        let put = transaction.put(storage.prefix.object(&key), bytes, expect);
        self.transaction = with(put, companions);
        if self.count > OPERATIONS_MAX / 2 {
            self.flush().await?;
        }
        Ok(())
    }

    /// Commits what was added. A conflict means that another server on the same store was quicker: its objects
    /// are as good as ours.
    pub(super) async fn flush(&mut self) -> Result<(), String> {
        let transaction = std::mem::take(&mut self.transaction);
        if std::mem::take(&mut self.count) == 0 {
            return Ok(());
        }
        let _claims = std::mem::take(&mut self.claims);
        match self.api.store.commit(transaction).await {
            Ok(revision) => {
                self.api.seen(revision).await;
                Ok(())
            }
            Err(rhumb_store::Error::Conflict(_)) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }
}
