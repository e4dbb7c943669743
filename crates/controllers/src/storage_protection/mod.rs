//! Protection controllers for PersistentVolumeClaims, PersistentVolumes and VolumeAttributesClasses: a finalizer keeps
//! each object while it is used.
//!
//! All three share one worker: it reads a terminating object, then its possible holders, and removes the finalizer if
//! there are none. Held objects wait until their last holder is gone. Nothing is kept in memory for other objects,
//! however many pods and claims there are.

mod claims;
mod partial_objects;
mod protection_controller;
mod protection_state;
mod volume_attributes_classes;
mod volumes;

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;

use crate::Error;

pub(crate) use claims::run as run_claims;
pub(crate) use volume_attributes_classes::run as run_classes;
pub(crate) use volumes::run as run_volumes;

/// Page size of lists.
const PAGE_SIZE: u32 = 500;

/// Uids of the holders of each object, by the object's name.
type HoldersByObject = HashMap<String, HashSet<String>>;

/// A kind whose objects are protected while in use.
trait ProtectedKind: Send + Sync {
    const FINALIZER: &'static str;

    /// API of the objects in a namespace, or of all if the kind is cluster-scoped.
    fn api(client: Client, namespace: &str) -> Api<DynamicObject>;

    /// Finds the holders of these terminating objects, which were read before.
    fn holders(
        reader: &Client,
        namespace: &str,
        terminating: &HashMap<String, DynamicObject>,
    ) -> impl Future<Output = Result<HoldersByObject, Error>> + Send;
}

/// Required change of an object's protection finalizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FinalizerChange {
    Add,
    /// If the object is not in use.
    Remove,
}

fn required_change(metadata: &ObjectMeta, finalizer: &str) -> Option<FinalizerChange> {
    let mut finalizers = metadata.finalizers.iter().flatten();
    let is_protected = finalizers.any(|own| own == finalizer);
    match (metadata.deletion_timestamp.is_some(), is_protected) {
        (true, true) => Some(FinalizerChange::Remove),
        (false, false) => Some(FinalizerChange::Add),
        _ => None,
    }
}

fn apply(finalizer_change: FinalizerChange, metadata: &mut ObjectMeta, finalizer: &str) {
    let finalizers = metadata.finalizers.get_or_insert_default();
    match finalizer_change {
        FinalizerChange::Add => finalizers.push(finalizer.to_owned()),
        FinalizerChange::Remove => finalizers.retain(|own| own != finalizer),
    }
}

/// Lists all objects, page by page.
async fn for_each<K>(api: &Api<K>, mut handle: impl FnMut(K)) -> Result<(), Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    let mut params = ListParams::default().limit(PAGE_SIZE);
    loop {
        let page = api.list(&params).await?;
        page.items.into_iter().for_each(&mut handle);
        match page.metadata.continue_ {
            Some(next) if !next.is_empty() => params = params.continue_token(&next),
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn finalizers_are_added_to_live_objects_and_removed_from_deleted_ones() {
        let time = "2026-01-01T00:00:00Z";
        let table = [
            (json!({}), Some(FinalizerChange::Add), json!(["ours"])),
            (
                json!({"finalizers": ["theirs"]}),
                Some(FinalizerChange::Add),
                json!(["theirs", "ours"]),
            ),
            (json!({"finalizers": ["ours"]}), None, json!(["ours"])),
            (
                json!({"deletionTimestamp": time, "finalizers": ["ours", "theirs"]}),
                Some(FinalizerChange::Remove),
                json!(["theirs"]),
            ),
            (
                json!({"deletionTimestamp": time, "finalizers": ["theirs"]}),
                None,
                json!(["theirs"]),
            ),
        ];
        for (metadata, wanted, after) in table {
            check(metadata, wanted, after);
        }
    }

    fn check(metadata: Value, wanted: Option<FinalizerChange>, after: Value) {
        let mut metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
        assert_eq!(required_change(&metadata, "ours"), wanted, "{metadata:?}");
        if let Some(wanted) = wanted {
            apply(wanted, &mut metadata, "ours");
        }
        assert_eq!(json!(metadata.finalizers), after);
    }
}
