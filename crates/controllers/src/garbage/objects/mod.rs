//! Objects as far as this controller reads them, and the requests that it makes about one.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::core::DynamicResourceScope;
use kube::discovery::ApiResource;
use kube::{Api, Resource};
use serde::Deserialize;
use serde_json::{Value, json};

use super::graph::{Object, Owner};
use super::verdict::{FOREGROUND, ORPHAN, Policy};
use crate::Error;
use rhumb_client::error::found;

/// The few fields of an object's metadata that matter here. The rest, of which managed fields are most, is
/// skipped as it is read.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "Wire")]
pub(super) struct Meta {
    metadata: ObjectMeta,
}

#[derive(Deserialize)]
struct Wire {
    metadata: WireMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    deletion_timestamp: Option<Time>,
    finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

impl From<Wire> for Meta {
    fn from(Wire { metadata }: Wire) -> Meta {
        Meta {
            metadata: ObjectMeta {
                name: metadata.name,
                namespace: metadata.namespace,
                uid: metadata.uid,
                resource_version: metadata.resource_version,
                deletion_timestamp: metadata.deletion_timestamp,
                finalizers: metadata.finalizers,
                owner_references: metadata.owner_references,
                ..ObjectMeta::default()
            },
        }
    }
}

impl Resource for Meta {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn metadata_api() -> bool {
        true
    }

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&of.kind)
    }

    fn group(of: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&of.group)
    }

    fn version(of: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&of.version)
    }

    fn plural(of: &ApiResource) -> Cow<'_, str> {
        Cow::Borrowed(&of.plural)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Meta {
    pub(super) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn version(&self) -> &str {
        self.metadata
            .resource_version
            .as_deref()
            .unwrap_or_default()
    }

    fn finalizers(&self) -> &[String] {
        self.metadata.finalizers.as_deref().unwrap_or_default()
    }

    pub(super) fn owners(&self) -> &[OwnerReference] {
        self.metadata
            .owner_references
            .as_deref()
            .unwrap_or_default()
    }

    pub(super) fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers().iter().any(|own| own == finalizer)
    }

    /// Whether it is deleted, and waits until its dependents are.
    pub(super) fn awaits_dependents(&self) -> bool {
        self.metadata.deletion_timestamp.is_some() && self.has_finalizer(FOREGROUND)
    }

    pub(super) fn as_object(&self) -> Object<'_> {
        let owners = self.owners().iter().map(|owner| Owner {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
            blocks: owner.block_owner_deletion == Some(true),
        });
        Object {
            namespace: self.namespace(),
            name: self.metadata.name.as_deref().unwrap_or_default(),
            uid: self.uid(),
            owners: owners.collect(),
            is_deleting: self.metadata.deletion_timestamp.is_some(),
            has_foreground: self.has_finalizer(FOREGROUND),
            has_orphan: self.has_finalizer(ORPHAN),
        }
    }
}

/// How often a finalizer is tried to be removed from an object that others change meanwhile.
const CONFLICTS_MAX: usize = 5;

/// One object: a name that was looked up, and the uid that is meant.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) api: Api<Meta>,
    pub(super) name: String,
    pub(super) uid: String,
}

impl Target {
    /// The object as it is now; `None` if it is gone, or if another has its name.
    pub(super) async fn get(&self) -> Result<Option<Meta>, Error> {
        let latest = found(self.api.get(&self.name).await)?;
        Ok(latest.filter(|latest| latest.uid() == self.uid))
    }

    /// Deletes the object as it was seen. If it has changed, but not its owners, it is deleted nevertheless: who
    /// changes it all the time does not keep it. False if it was gone.
    pub(super) async fn delete(&self, seen: &Meta, policy: Policy) -> Result<bool, Error> {
        match self.delete_at(Some(seen.version()), policy).await {
            Err(error) if error.is_conflict() => {
                let Some(latest) = found(self.api.get(&self.name).await)? else {
                    return Ok(false);
                };
                let is_same = latest.uid() == self.uid && latest.owners() == seen.owners();
                if !is_same || latest.version() == seen.version() {
                    return Err(error);
                }
                self.delete_at(None, policy).await
            }
            result => result,
        }
    }

    async fn delete_at(&self, version: Option<&str>, policy: Policy) -> Result<bool, Error> {
        let params = DeleteParams {
            propagation_policy: Some(match policy {
                Policy::Background => PropagationPolicy::Background,
                Policy::Foreground => PropagationPolicy::Foreground,
                Policy::Orphan => PropagationPolicy::Orphan,
            }),
            preconditions: Some(Preconditions {
                uid: Some(self.uid.clone()),
                resource_version: version.map(str::to_owned),
            }),
            ..DeleteParams::default()
        };
        let deleted = found(self.api.delete(&self.name, &params).await)?;
        Ok(deleted.is_some())
    }

    /// Takes references to these owners out. That there is none is no error, nor that the object is gone.
    pub(super) async fn release(&self, owners: &[String]) -> Result<(), Error> {
        let deleted: Vec<Value> = owners
            .iter()
            .map(|uid| json!({"$patch": "delete", "uid": uid}))
            .collect();
        let strategic = json!({"metadata": {"uid": self.uid, "ownerReferences": deleted}});
        self.patch_references(strategic, |latest| {
            let mut kept = latest.owners().to_vec();
            kept.retain(|owner| !owners.contains(&owner.uid));
            kept
        })
        .await
    }

    /// Makes all references such that no owner waits for this object.
    pub(super) async fn unblock(&self, seen: &Meta) -> Result<(), Error> {
        let mut blocking = seen.owners().to_vec();
        blocking.retain(|owner| owner.block_owner_deletion == Some(true));
        for owner in &mut blocking {
            owner.block_owner_deletion = Some(false);
        }
        let strategic = json!({"metadata": {"uid": self.uid, "ownerReferences": blocking}});
        self.patch_references(strategic, |latest| {
            let mut owners = latest.owners().to_vec();
            for owner in &mut owners {
                owner.block_owner_deletion = Some(false);
            }
            owners
        })
        .await
    }

    /// By a strategic merge patch, or by one that replaces all references where the kind knows no other.
    async fn patch_references(
        &self,
        strategic: Value,
        replaced: impl Fn(&Meta) -> Vec<OwnerReference>,
    ) -> Result<(), Error> {
        let params = PatchParams::default();
        let patch = Patch::Strategic(&strategic);
        match found(self.api.patch(&self.name, &params, &patch).await) {
            Err(error) if error.code() == Some(415) => {}
            result => return result.map(drop),
        }
        let Some(latest) = self.get().await? else {
            return Ok(());
        };
        let patch = json!({"metadata": {
            "resourceVersion": latest.version(),
            "ownerReferences": replaced(&latest),
        }});
        let patch = Patch::Merge(&patch);
        found(self.api.patch(&self.name, &params, &patch).await).map(drop)
    }

    /// Takes a finalizer off the object, if it is there and has it.
    pub(super) async fn remove_finalizer(&self, finalizer: &str) -> Result<(), Error> {
        let mut conflicts = 0;
        loop {
            let Some(latest) = self.get().await? else {
                return Ok(());
            };
            if !latest.has_finalizer(finalizer) {
                return Ok(());
            }
            let mut left = latest.finalizers().to_vec();
            left.retain(|own| own != finalizer);
            let patch = json!({"metadata": {
                "resourceVersion": latest.version(),
                "finalizers": left,
            }});
            let params = PatchParams::default();
            let patch = Patch::Merge(&patch);
            match found(self.api.patch(&self.name, &params, &patch).await) {
                Err(error) if error.is_conflict() && conflicts < CONFLICTS_MAX => conflicts += 1,
                result => return result.map(drop),
            }
        }
    }
}
