//! PV protection controller: keeps PersistentVolumes while they are bound to a claim.

use std::collections::{HashMap, HashSet};

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::api::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::Config;
use kube::{Api, Client};

use super::protection_controller::ProtectionController;
use super::{HoldersByObject, ProtectedKind};
use crate::namespaced_name::namespaced_name;
use crate::{ControllerContext, Error};
use rhumb_client::informer::watch;

struct VolumeProtection;

impl ProtectedKind for VolumeProtection {
    const FINALIZER: &'static str = "kubernetes.io/pv-protection";

    fn api(client: Client, _: &str) -> Api<DynamicObject> {
        Api::all_with(client, &ApiResource::erase::<PersistentVolume>(&()))
    }

    /// The holder is the claim in the volume's own `spec.claimRef`.
    async fn holders(
        _: &Client,
        _: &str,
        terminating: &HashMap<String, DynamicObject>,
    ) -> Result<HoldersByObject, Error> {
        let bound = terminating.iter().filter(|(_, volume)| is_bound(volume));
        Ok(bound
            .map(|(name, volume)| {
                let claim = volume.data["spec"]["claimRef"]["uid"].as_str();
                let claim = claim.unwrap_or_default().to_owned();
                (name.clone(), HashSet::from([claim]))
            })
            .collect())
    }
}

fn is_bound(volume: &DynamicObject) -> bool {
    volume.data["status"]["phase"] == "Bound"
}

pub(crate) async fn run(context: ControllerContext) -> Result<(), Error> {
    // The end of a binding changes the volume itself, so no other kind needs to be watched.
    let volumes: Api<PartialObjectMeta<PersistentVolume>> = Api::all(context.reader.clone());
    let worker = ProtectionController::<VolumeProtection>::new(context);
    let volumes = watch(volumes, Config::default(), namespaced_name, |event| {
        worker.handle_event(&event);
    });
    tokio::select! {
        ended = volumes => ended,
        ended = worker.run_workers() => ended,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_bound_volumes_are_in_use() {
        let table = [
            (json!({}), false),
            (json!({"status": {"phase": "Available"}}), false),
            (json!({"status": {"phase": "Released"}}), false),
            (json!({"status": {"phase": "Failed"}}), false),
            (json!({"status": {"phase": "Pending"}}), false),
            (json!({"status": {"phase": "Bound"}}), true),
        ];
        for (data, is_used) in table {
            let mut volume = data.clone();
            volume["metadata"] = json!({});
            let volume: DynamicObject = serde_json::from_value(volume).unwrap();
            assert_eq!(is_bound(&volume), is_used, "{data}");
        }
    }
}
