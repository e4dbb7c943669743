//! Pods, claims and volumes with only the fields that these controllers use; others are skipped when decoding.

use std::borrow::Cow;
use std::marker::PhantomData;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};

pub(super) type PartialPod = PartialObject<core::Pod, PartialPodSpec, IgnoredAny>;
pub(super) type PartialPersistentVolumeClaim = PartialObject<
    core::PersistentVolumeClaim,
    PartialPersistentVolumeClaimSpec,
    PartialPersistentVolumeClaimStatus,
>;
pub(super) type PartialPersistentVolume =
    PartialObject<core::PersistentVolume, PartialPersistentVolumeSpec, IgnoredAny>;

/// An object of the Kubernetes kind `K`, partially decoded.
#[derive(Debug, Clone, Deserialize)]
#[serde(bound(
    deserialize = "Spec: Default + DeserializeOwned, Status: Default + DeserializeOwned"
))]
pub(super) struct PartialObject<K, Spec, Status> {
    #[serde(deserialize_with = "metadata_subset")]
    pub(super) metadata: ObjectMeta,
    #[serde(default)]
    pub(super) spec: Spec,
    #[serde(default)]
    pub(super) status: Status,
    #[serde(skip)]
    kind: PhantomData<K>,
}

impl<K, Spec, Status> PartialObject<K, Spec, Status> {
    pub(super) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }
}

/// Skips managed fields, labels and annotations, which make up most of many objects.
fn metadata_subset<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct MetadataSubset {
        name: Option<String>,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        deletion_timestamp: Option<Time>,
        deletion_grace_period_seconds: Option<i64>,
    }

    let few = MetadataSubset::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: few.name,
        namespace: few.namespace,
        uid: few.uid,
        resource_version: few.resource_version,
        deletion_timestamp: few.deletion_timestamp,
        deletion_grace_period_seconds: few.deletion_grace_period_seconds,
        ..ObjectMeta::default()
    })
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PartialPodSpec {
    /// Empty until the pod is scheduled.
    #[serde(default)]
    pub(super) node_name: String,
    #[serde(default)]
    pub(super) volumes: Vec<PodVolume>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodVolume {
    pub(super) name: String,
    pub(super) persistent_volume_claim: Option<ClaimVolumeSource>,
    pub(super) ephemeral: Option<IgnoredAny>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClaimVolumeSource {
    pub(super) claim_name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PartialPersistentVolumeClaimSpec {
    pub(super) volume_attributes_class_name: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PartialPersistentVolumeClaimStatus {
    pub(super) current_volume_attributes_class_name: Option<String>,
    pub(super) modify_volume_status: Option<ModifyVolumeStatus>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ModifyVolumeStatus {
    pub(super) target_volume_attributes_class_name: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PartialPersistentVolumeSpec {
    pub(super) volume_attributes_class_name: Option<String>,
}

impl<K: Resource, Spec, Status> Resource for PartialObject<K, Spec, Status> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(kind)
    }

    fn group(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::group(kind)
    }

    fn version(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::version(kind)
    }

    fn plural(kind: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
