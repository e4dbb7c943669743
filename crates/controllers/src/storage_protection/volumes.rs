//! Volumes stay while they are bound to a claim.

use std::collections::{HashMap, HashSet};

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::api::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::Config;
use kube::{Api, Client};

use super::keeper::Keeper;
use super::{Holders, Protected};
use crate::{Context, Error};
use rhumb_client::watching::watch;

struct Volumes;

impl Protected for Volumes {
    const FINALIZER: &'static str = "kubernetes.io/pv-protection";

    fn api(client: Client, _: &str) -> Api<DynamicObject> {
        Api::all_with(client, &ApiResource::erase::<PersistentVolume>(&()))
    }

    /// A volume says itself who holds it.
    async fn holders(
        _: &Client,
        _: &str,
        going: &HashMap<String, DynamicObject>,
    ) -> Result<Holders, Error> {
        let bound = going.iter().filter(|(_, volume)| is_bound(volume));
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

pub(crate) async fn run(context: Context) -> Result<(), Error> {
    // Whoever ends a binding changes the volume, which is then looked at again.
    let volumes: Api<PartialObjectMeta<PersistentVolume>> = Api::all(context.reader.clone());
    let keeper = Keeper::<Volumes>::new(context);
    let volumes = watch(volumes, Config::default(), |event| keeper.note(&event));
    tokio::select! {
        ended = volumes => ended,
        ended = keeper.work() => ended,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_bound_is_used() {
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
