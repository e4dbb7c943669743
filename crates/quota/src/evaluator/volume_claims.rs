//! Usage of PersistentVolumeClaims: their number and requested storage, in total and by storage class (upstream:
//! `pvcEvaluator`).

use std::collections::BTreeSet;

use rhumb_api::JsonObject;
use rhumb_api::partial_decode::{BorrowedStr, ResourceList, or_default};
use rhumb_meta::Quantity;
use serde::{Deserialize, Deserializer};

use super::object_count::ONE;
use crate::{ObjectUsage, ResourceQuantities, ScopeAttributes};

const COUNT: &str = "count/persistentvolumeclaims";
const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
/// Separates the name of a storage class from the counted resource.
const STORAGE_CLASS_SUFFIX: &str = ".storageclass.storage.k8s.io/";

#[derive(Default, Deserialize)]
#[serde(default)]
struct PartialVolumeClaim<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: PartialClaimMetadata<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    spec: PartialClaimSpec<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    status: PartialClaimStatus<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PartialClaimMetadata<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    annotations: PartialClaimAnnotations<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PartialClaimAnnotations<'a> {
    /// Overrides the field of the spec if present, even if it is empty or null.
    #[serde(
        borrow,
        rename = "volume.beta.kubernetes.io/storage-class",
        deserialize_with = "present"
    )]
    storage_class: Option<BorrowedStr<'a>>,
}

fn present<'de: 'a, 'a, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<BorrowedStr<'a>>, D::Error> {
    BorrowedStr::deserialize(from).map(Some)
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialClaimSpec<'a> {
    #[serde(borrow)]
    storage_class_name: BorrowedStr<'a>,
    #[serde(borrow)]
    volume_attributes_class_name: BorrowedStr<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    resources: PartialClaimResources<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PartialClaimResources<'a> {
    #[serde(borrow)]
    requests: ResourceList<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialClaimStatus<'a> {
    #[serde(borrow)]
    allocated_resources: ResourceList<'a>,
    #[serde(borrow)]
    current_volume_attributes_class_name: BorrowedStr<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    modify_volume_status: PartialModifyVolumeStatus<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialModifyVolumeStatus<'a> {
    #[serde(borrow)]
    target_volume_attributes_class_name: BorrowedStr<'a>,
}

pub(super) fn covers(name: &str) -> bool {
    let of_class = name.strip_suffix(CLAIMS).or(name.strip_suffix(STORAGE));
    name == COUNT
        || of_class.is_some_and(|class| class.is_empty() || class.ends_with(STORAGE_CLASS_SUFFIX))
}

pub(super) fn usage(object: &JsonObject) -> ObjectUsage {
    PartialVolumeClaim::of(object).usage()
}

pub(super) fn usage_from_json(json: &[u8]) -> Result<ObjectUsage, serde_json::Error> {
    serde_json::from_slice(json).map(|claim: PartialVolumeClaim<'_>| claim.usage())
}

/// A status update matters if allocated storage or the current or target attributes class changes.
pub(super) fn handles_status_update(old: &JsonObject, new: &JsonObject) -> bool {
    let (old, new) = (PartialVolumeClaim::of(old), PartialVolumeClaim::of(new));
    old.allocated() != new.allocated() || old.attributes_classes() != new.attributes_classes()
}

impl<'a> PartialVolumeClaim<'a> {
    fn of(object: &'a JsonObject) -> Self {
        PartialVolumeClaim::deserialize(object).unwrap_or_default()
    }

    fn usage(&self) -> ObjectUsage {
        let class = self.storage_class();
        let mut amounts =
            ResourceQuantities::from_iter([(COUNT.into(), ONE), (CLAIMS.into(), ONE)]);
        if !class.is_empty() {
            amounts.set(format!("{class}{STORAGE_CLASS_SUFFIX}{CLAIMS}"), ONE);
        }
        if let Some(storage) = self.storage() {
            if !class.is_empty() {
                amounts.set(
                    format!("{class}{STORAGE_CLASS_SUFFIX}{STORAGE}"),
                    storage.clone(),
                );
            }
            amounts.set(STORAGE, storage);
        }
        let classes = self.attributes_classes().into_iter();
        ObjectUsage {
            quantities: amounts,
            scope_attributes: ScopeAttributes::VolumeClaim {
                attributes_classes: classes.map(Box::from).collect(),
            },
            ..ObjectUsage::default()
        }
    }

    fn storage_class(&self) -> &str {
        let annotated = self.metadata.annotations.storage_class.as_ref();
        annotated.unwrap_or(&self.spec.storage_class_name)
    }

    /// Requested storage, or the allocated storage of an abandoned expansion if that is larger; in whole bytes.
    fn storage(&self) -> Option<Quantity> {
        let requested = rounded_up(self.spec.resources.requests.get("storage")?);
        match self.allocated() {
            Some(allocated) if *allocated > requested => Some(rounded_up(allocated)),
            _ => Some(requested),
        }
    }

    fn allocated(&self) -> Option<&Quantity> {
        self.status.allocated_resources.get("storage")
    }

    fn attributes_classes(&self) -> BTreeSet<&str> {
        let modified = &self.status.modify_volume_status;
        let classes: [&str; 3] = [
            &self.spec.volume_attributes_class_name,
            &self.status.current_volume_attributes_class_name,
            &modified.target_volume_attributes_class_name,
        ];
        classes
            .into_iter()
            .filter(|class| !class.is_empty())
            .collect()
    }
}

fn rounded_up(amount: &Quantity) -> Quantity {
    let mut amount = amount.clone();
    if !amount.is_integer() {
        amount.round_up(0);
    }
    amount
}
