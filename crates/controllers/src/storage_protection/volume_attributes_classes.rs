//! VolumeAttributesClass protection controller: keeps classes while a claim or a volume references them.

use std::collections::HashMap;

use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use kube::api::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::Config;
use kube::{Api, Client};

use super::partial_objects::{
    PartialObject, PartialPersistentVolume, PartialPersistentVolumeClaim,
};
use super::protection_controller::ProtectionController;
use super::{HoldersByObject, ProtectedKind, for_each};
use crate::namespaced_name::namespaced_name;
use crate::{ControllerContext, Error};
use rhumb_client::informer::{Event, watch};

/// The namespace of cluster-scoped objects.
const CLUSTER_SCOPE: &str = "";

struct VolumeAttributesClassProtection;

impl ProtectedKind for VolumeAttributesClassProtection {
    const FINALIZER: &'static str = "kubernetes.io/vac-protection";

    fn api(client: Client, _: &str) -> Api<DynamicObject> {
        Api::all_with(client, &ApiResource::erase::<VolumeAttributesClass>(&()))
    }

    async fn holders(
        reader: &Client,
        _: &str,
        terminating: &HashMap<String, DynamicObject>,
    ) -> Result<HoldersByObject, Error> {
        let mut holders = HoldersByObject::new();
        let mut add_holder = |names: Vec<&str>, uid: &str| {
            for name in names
                .into_iter()
                .filter(|&name| terminating.contains_key(name))
            {
                let holders = holders.entry(name.to_owned()).or_default();
                holders.insert(uid.to_owned());
            }
        };
        let claims: Api<PartialPersistentVolumeClaim> = Api::all(reader.clone());
        for_each(&claims, |claim| add_holder(claim.classes(), claim.uid())).await?;
        let volumes: Api<PartialPersistentVolume> = Api::all(reader.clone());
        for_each(&volumes, |volume| {
            add_holder(volume.classes(), volume.uid());
        })
        .await?;
        Ok(holders)
    }
}

/// An object that references VolumeAttributesClasses.
trait VolumeAttributesClassUser {
    fn classes(&self) -> Vec<&str>;
}

impl VolumeAttributesClassUser for PartialPersistentVolumeClaim {
    /// The requested class, the current class, and the target of a modification in progress.
    fn classes(&self) -> Vec<&str> {
        let status = &self.status;
        let target = status.modify_volume_status.as_ref();
        let named = [
            self.spec.volume_attributes_class_name.as_deref(),
            status.current_volume_attributes_class_name.as_deref(),
            target.and_then(|status| status.target_volume_attributes_class_name.as_deref()),
        ];
        let named = named.into_iter().flatten();
        named.filter(|name| !name.is_empty()).collect()
    }
}

impl VolumeAttributesClassUser for PartialPersistentVolume {
    fn classes(&self) -> Vec<&str> {
        let named = self.spec.volume_attributes_class_name.as_deref();
        named.filter(|name| !name.is_empty()).into_iter().collect()
    }
}

pub(crate) async fn run(context: ControllerContext) -> Result<(), Error> {
    let classes: Api<PartialObjectMeta<VolumeAttributesClass>> = Api::all(context.reader.clone());
    let claims: Api<PartialPersistentVolumeClaim> = Api::all(context.reader.clone());
    let volumes: Api<PartialPersistentVolume> = Api::all(context.reader.clone());
    let worker = ProtectionController::<VolumeAttributesClassProtection>::new(context);
    let classes = watch(classes, Config::default(), namespaced_name, |event| {
        worker.handle_event(&event);
    });
    let claims = watch(claims, Config::default(), uid_of, |event| {
        handle_event(&worker, &event);
    });
    let volumes = watch(volumes, Config::default(), uid_of, |event| {
        handle_event(&worker, &event);
    });
    tokio::select! {
        ended = classes => ended,
        ended = claims => ended,
        ended = volumes => ended,
        ended = worker.run_workers() => ended,
    }
}

fn uid_of<K, Spec, Status>(object: &PartialObject<K, Spec, Status>) -> String {
    object.uid().to_owned()
}

fn handle_event<K, Spec, Status>(
    worker: &ProtectionController<VolumeAttributesClassProtection>,
    event: &Event<PartialObject<K, Spec, Status>, String>,
) where
    PartialObject<K, Spec, Status>: VolumeAttributesClassUser,
{
    match event {
        Event::Applied(object) => {
            worker.retain_uses(CLUSTER_SCOPE, &object.classes(), object.uid());
        }
        Event::Deleted(uid) => worker.retain_uses(CLUSTER_SCOPE, &[], uid),
        Event::Replaced(_) => worker.handle_relist(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_claim_uses_its_requested_current_and_target_classes() {
        let table: [(Value, Value, &[&str]); 6] = [
            (json!({}), json!({}), &[]),
            (json!({"volumeAttributesClassName": ""}), json!({}), &[]),
            (json!({"volumeAttributesClassName": "a"}), json!({}), &["a"]),
            (
                json!({}),
                json!({"currentVolumeAttributesClassName": "b"}),
                &["b"],
            ),
            (
                json!({}),
                json!({"modifyVolumeStatus": {"status": "Pending"}}),
                &[],
            ),
            (
                json!({"volumeAttributesClassName": "a"}),
                json!({
                    "currentVolumeAttributesClassName": "b",
                    "modifyVolumeStatus": {
                        "status": "InProgress",
                        "targetVolumeAttributesClassName": "c",
                    },
                }),
                &["a", "b", "c"],
            ),
        ];
        for (spec, status, names) in table {
            let claim = json!({"metadata": {}, "spec": spec, "status": status});
            let read: PartialPersistentVolumeClaim = serde_json::from_value(claim.clone()).unwrap();
            assert_eq!(read.classes(), names, "{claim}");
        }
    }

    #[test]
    fn a_volume_uses_at_most_one_class() {
        let table: [(Value, &[&str]); 3] = [
            (json!({}), &[]),
            (json!({"volumeAttributesClassName": ""}), &[]),
            (json!({"volumeAttributesClassName": "a"}), &["a"]),
        ];
        for (spec, names) in table {
            let volume = json!({"metadata": {}, "spec": spec, "status": {"phase": "Bound"}});
            let read: PartialPersistentVolume = serde_json::from_value(volume.clone()).unwrap();
            assert_eq!(read.classes(), names, "{volume}");
        }
    }
}
