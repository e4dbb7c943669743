//! Classes of volumes stay while a claim or a volume names them.

use std::collections::HashMap;

use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use kube::api::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};

use super::keeper::Keeper;
use super::views::{Claim, View, Volume};
use super::{Holders, Protected, for_each};
use crate::{Context, Error};
use rhumb_client::watching::watch;

/// Classes are in no namespace.
const EVERYWHERE: &str = "";

struct Classes;

impl Protected for Classes {
    const FINALIZER: &'static str = "kubernetes.io/vac-protection";

    fn api(client: Client, _: &str) -> Api<DynamicObject> {
        Api::all_with(client, &ApiResource::erase::<VolumeAttributesClass>(&()))
    }

    async fn holders(
        reader: &Client,
        _: &str,
        going: &HashMap<String, DynamicObject>,
    ) -> Result<Holders, Error> {
        let mut holders = Holders::new();
        let mut note = |names: Vec<&str>, uid: &str| {
            for name in names.into_iter().filter(|&name| going.contains_key(name)) {
                let holders = holders.entry(name.to_owned()).or_default();
                holders.insert(uid.to_owned());
            }
        };
        let claims: Api<Claim> = Api::all(reader.clone());
        for_each(&claims, |claim| note(claim.classes(), claim.uid())).await?;
        let volumes: Api<Volume> = Api::all(reader.clone());
        for_each(&volumes, |volume| note(volume.classes(), volume.uid())).await?;
        Ok(holders)
    }
}

/// What names classes.
trait NamesClasses {
    fn classes(&self) -> Vec<&str>;
}

impl NamesClasses for Claim {
    /// The one it wants, the one it has, and the one it is on the way to.
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

impl NamesClasses for Volume {
    fn classes(&self) -> Vec<&str> {
        let named = self.spec.volume_attributes_class_name.as_deref();
        named.filter(|name| !name.is_empty()).into_iter().collect()
    }
}

pub(crate) async fn run(context: Context) -> Result<(), Error> {
    let classes: Api<PartialObjectMeta<VolumeAttributesClass>> = Api::all(context.reader.clone());
    let claims: Api<Claim> = Api::all(context.reader.clone());
    let volumes: Api<Volume> = Api::all(context.reader.clone());
    let keeper = Keeper::<Classes>::new(context);
    let classes = watch(classes, Config::default(), |event| keeper.note(&event));
    let claims = watch(claims, Config::default(), |event| note(&keeper, &event));
    let volumes = watch(volumes, Config::default(), |event| note(&keeper, &event));
    tokio::select! {
        ended = classes => ended,
        ended = claims => ended,
        ended = volumes => ended,
        ended = keeper.work() => ended,
    }
}

fn note<K, Spec, Status>(keeper: &Keeper<Classes>, event: &Event<View<K, Spec, Status>>)
where
    View<K, Spec, Status>: NamesClasses,
{
    match event {
        Event::Apply(object) | Event::InitApply(object) => {
            keeper.note_uses(EVERYWHERE, &object.classes(), object.uid());
        }
        Event::Delete(object) => keeper.note_uses(EVERYWHERE, &[], object.uid()),
        Event::Init => {}
        Event::InitDone => keeper.note_gap(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_claim_names_what_it_wants_what_it_has_and_what_it_will_have() {
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
            let read: Claim = serde_json::from_value(claim.clone()).unwrap();
            assert_eq!(read.classes(), names, "{claim}");
        }
    }

    #[test]
    fn a_volume_names_one_class_or_none() {
        let table: [(Value, &[&str]); 3] = [
            (json!({}), &[]),
            (json!({"volumeAttributesClassName": ""}), &[]),
            (json!({"volumeAttributesClassName": "a"}), &["a"]),
        ];
        for (spec, names) in table {
            let volume = json!({"metadata": {}, "spec": spec, "status": {"phase": "Bound"}});
            let read: Volume = serde_json::from_value(volume.clone()).unwrap();
            assert_eq!(read.classes(), names, "{volume}");
        }
    }
}
