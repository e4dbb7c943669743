//! What claims for volumes count for: themselves and the storage they ask for, in all and by storage class.

use std::collections::BTreeSet;

use rhumb_api::Object;
use rhumb_api::partial::{ResourceList, Text, or_default};
use rhumb_meta::Quantity;
use serde::{Deserialize, Deserializer};

use super::counts::ONE;
use crate::{Amounts, Charge, Traits};

const COUNT: &str = "count/persistentvolumeclaims";
const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
/// Stands between the name of a storage class and what is counted of it.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

#[derive(Default, Deserialize)]
#[serde(default)]
struct Claim<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    metadata: Metadata<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    spec: Spec<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    status: Status<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata<'a> {
    #[serde(borrow, deserialize_with = "or_default")]
    annotations: Annotations<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotations<'a> {
    /// Comes before the field of the spec wherever it is there, even if it is empty or null.
    #[serde(
        borrow,
        rename = "volume.beta.kubernetes.io/storage-class",
        deserialize_with = "present"
    )]
    storage_class: Option<Text<'a>>,
}

fn present<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<Text<'a>>, D::Error> {
    Text::deserialize(from).map(Some)
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow)]
    storage_class_name: Text<'a>,
    #[serde(borrow)]
    volume_attributes_class_name: Text<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    resources: Resources<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Resources<'a> {
    #[serde(borrow)]
    requests: ResourceList<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status<'a> {
    #[serde(borrow)]
    allocated_resources: ResourceList<'a>,
    #[serde(borrow)]
    current_volume_attributes_class_name: Text<'a>,
    #[serde(borrow, deserialize_with = "or_default")]
    modify_volume_status: ModifyVolumeStatus<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ModifyVolumeStatus<'a> {
    #[serde(borrow)]
    target_volume_attributes_class_name: Text<'a>,
}

pub(super) fn covers(name: &str) -> bool {
    let of_class = name.strip_suffix(CLAIMS).or(name.strip_suffix(STORAGE));
    name == COUNT || of_class.is_some_and(|class| class.is_empty() || class.ends_with(OF_CLASS))
}

pub(super) fn measure(object: &Object) -> Charge {
    Claim::of(object).charge()
}

pub(super) fn measure_json(json: &[u8]) -> Result<Charge, serde_json::Error> {
    serde_json::from_slice(json).map(|claim: Claim<'_>| claim.charge())
}

/// A status counts for what was set aside, and for the attributes classes that are used or coming.
pub(super) fn minds_status(old: &Object, new: &Object) -> bool {
    let (old, new) = (Claim::of(old), Claim::of(new));
    old.allocated() != new.allocated() || old.attributes_classes() != new.attributes_classes()
}

impl<'a> Claim<'a> {
    fn of(object: &'a Object) -> Self {
        Claim::deserialize(object).unwrap_or_default()
    }

    fn charge(&self) -> Charge {
        let class = self.storage_class();
        let mut amounts = Amounts::from_iter([(COUNT.into(), ONE), (CLAIMS.into(), ONE)]);
        if !class.is_empty() {
            amounts.set(format!("{class}{OF_CLASS}{CLAIMS}"), ONE);
        }
        if let Some(storage) = self.storage() {
            if !class.is_empty() {
                amounts.set(format!("{class}{OF_CLASS}{STORAGE}"), storage.clone());
            }
            amounts.set(STORAGE, storage);
        }
        let classes = self.attributes_classes().into_iter();
        Charge {
            amounts,
            traits: Traits::VolumeClaim {
                attributes_classes: classes.map(Box::from).collect(),
            },
            ..Charge::default()
        }
    }

    fn storage_class(&self) -> &str {
        let annotated = self.metadata.annotations.storage_class.as_ref();
        annotated.unwrap_or(&self.spec.storage_class_name)
    }

    /// What is asked for, or what an expansion that was given up has set aside; in whole bytes.
    fn storage(&self) -> Option<Quantity> {
        let asked = whole(self.spec.resources.requests.get("storage")?);
        match self.allocated() {
            Some(allocated) if *allocated > asked => Some(whole(allocated)),
            _ => Some(asked),
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

fn whole(amount: &Quantity) -> Quantity {
    let mut amount = amount.clone();
    if !amount.is_integer() {
        amount.round_up(0);
    }
    amount
}
