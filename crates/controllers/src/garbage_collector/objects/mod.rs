//! Partially decoded object metadata, and the requests that the garbage collector makes about one object.

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

use super::graph::{ObservedObject, ObservedOwner};
use super::verdict::{DeletionPropagation, FOREGROUND_FINALIZER, ORPHAN_FINALIZER};
use crate::Error;
use rhumb_client::error::none_if_not_found;

/// The metadata fields that the garbage collector uses. The rest, mostly managed fields, is skipped when decoding.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "WireObject")]
pub(super) struct PartialMetadata {
    metadata: ObjectMeta,
}

#[derive(Deserialize)]
struct WireObject {
    metadata: WireMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireMetadata {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    deletion_timestamp: Option<Time>,
    finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

impl From<WireObject> for PartialMetadata {
    fn from(WireObject { metadata }: WireObject) -> PartialMetadata {
        PartialMetadata {
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

impl Resource for PartialMetadata {
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

impl PartialMetadata {
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

    /// Whether it is in foreground deletion, waiting for its dependents.
    pub(super) fn awaits_dependents(&self) -> bool {
        self.metadata.deletion_timestamp.is_some() && self.has_finalizer(FOREGROUND_FINALIZER)
    }

    pub(super) fn as_object(&self) -> ObservedObject<'_> {
        let owners = self.owners().iter().map(|owner| ObservedOwner {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
            blocks: owner.block_owner_deletion == Some(true),
        });
        ObservedObject {
            namespace: self.namespace(),
            name: self.metadata.name.as_deref().unwrap_or_default(),
            uid: self.uid(),
            owners: owners.collect(),
            is_deleting: self.metadata.deletion_timestamp.is_some(),
            has_foreground: self.has_finalizer(FOREGROUND_FINALIZER),
            has_orphan: self.has_finalizer(ORPHAN_FINALIZER),
        }
    }
}

/// Retries after write conflicts when a finalizer is removed.
const CONFLICTS_MAX: usize = 5;

/// An object by name and expected uid.
#[derive(Debug)]
pub(super) struct TargetObject {
    pub(super) api: Api<PartialMetadata>,
    pub(super) name: String,
    pub(super) uid: String,
}

impl TargetObject {
    /// Reads the object; `None` if it does not exist or has another uid.
    pub(super) async fn get(&self) -> Result<Option<PartialMetadata>, Error> {
        let latest = none_if_not_found(self.api.get(&self.name).await)?;
        Ok(latest.filter(|latest| latest.uid() == self.uid))
    }

    /// Deletes the object at the version `observed`. If only other fields than the owners have changed since, deletes it
    /// anyway, so that frequent updates cannot prevent the deletion. False if it did not exist.
    pub(super) async fn delete(
        &self,
        observed: &PartialMetadata,
        policy: DeletionPropagation,
    ) -> Result<bool, Error> {
        match self.delete_at(Some(observed.version()), policy).await {
            Err(error) if error.is_conflict() => {
                let Some(latest) = none_if_not_found(self.api.get(&self.name).await)? else {
                    return Ok(false);
                };
                let is_same = latest.uid() == self.uid && latest.owners() == observed.owners();
                if !is_same || latest.version() == observed.version() {
                    return Err(error);
                }
                self.delete_at(None, policy).await
            }
            result => result,
        }
    }

    async fn delete_at(
        &self,
        version: Option<&str>,
        policy: DeletionPropagation,
    ) -> Result<bool, Error> {
        let params = DeleteParams {
            propagation_policy: Some(match policy {
                DeletionPropagation::Background => PropagationPolicy::Background,
                DeletionPropagation::Foreground => PropagationPolicy::Foreground,
                DeletionPropagation::Orphan => PropagationPolicy::Orphan,
            }),
            preconditions: Some(Preconditions {
                uid: Some(self.uid.clone()),
                resource_version: version.map(str::to_owned),
            }),
            ..DeleteParams::default()
        };
        let deleted = none_if_not_found(self.api.delete(&self.name, &params).await)?;
        Ok(deleted.is_some())
    }

    /// Removes the references to these owners. No error if there are none or the object does not exist.
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

    /// Unsets `blockOwnerDeletion` in all references.
    pub(super) async fn unblock(&self, observed: &PartialMetadata) -> Result<(), Error> {
        let mut blocking = observed.owners().to_vec();
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

    /// Applies the strategic merge patch, or a merge patch with all references if the kind does not support the former.
    async fn patch_references(
        &self,
        strategic: Value,
        replaced: impl Fn(&PartialMetadata) -> Vec<OwnerReference>,
    ) -> Result<(), Error> {
        let params = PatchParams::default();
        let patch = Patch::Strategic(&strategic);
        match none_if_not_found(self.api.patch(&self.name, &params, &patch).await) {
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
        none_if_not_found(self.api.patch(&self.name, &params, &patch).await).map(drop)
    }

    /// Removes a finalizer, if the object exists and has it.
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
            match none_if_not_found(self.api.patch(&self.name, &params, &patch).await) {
                Err(error) if error.is_conflict() && conflicts < CONFLICTS_MAX => conflicts += 1,
                result => return result.map(drop),
            }
        }
    }
}
