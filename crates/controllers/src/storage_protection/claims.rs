//! Claims stay while a pod that has a node uses them.

use std::borrow::Cow;
use std::collections::HashMap;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};

use super::keeper::Keeper;
use super::views::Pod;
use super::{Holders, Protected, for_each};
use crate::{Context, Error};
use rhumb_client::watching::watch;

struct Claims;

impl Protected for Claims {
    const FINALIZER: &'static str = "kubernetes.io/pvc-protection";

    fn api(client: Client, namespace: &str) -> Api<DynamicObject> {
        let kind = ApiResource::erase::<PersistentVolumeClaim>(&());
        Api::namespaced_with(client, namespace, &kind)
    }

    async fn holders(
        reader: &Client,
        namespace: &str,
        going: &HashMap<String, DynamicObject>,
    ) -> Result<Holders, Error> {
        let mut holders = Holders::new();
        let pods: Api<Pod> = Api::namespaced(reader.clone(), namespace);
        for_each(&pods, |pod| {
            for used in claims_of(&pod) {
                let Some(claim) = going.get(used.name.as_ref()) else {
                    continue;
                };
                if is_in_use(&pod, &used, &claim.metadata) {
                    let holders = holders.entry(used.name.into_owned()).or_default();
                    holders.insert(pod.uid().to_owned());
                }
            }
        })
        .await?;
        Ok(holders)
    }
}

/// A claim that a pod names in its volumes.
#[derive(Debug, PartialEq, Eq)]
struct Used<'a> {
    name: Cow<'a, str>,
    /// The claim was made for this volume, and is the pod's own.
    is_ephemeral: bool,
}

fn claims_of(pod: &Pod) -> impl Iterator<Item = Used<'_>> {
    pod.spec.volumes.iter().filter_map(|volume| {
        if let Some(claim) = &volume.persistent_volume_claim {
            return Some(Used {
                name: claim.claim_name.as_str().into(),
                is_ephemeral: false,
            });
        }
        volume.ephemeral.as_ref().map(|_| {
            let pod = pod.metadata.name.as_deref().unwrap_or_default();
            Used {
                name: format!("{pod}-{}", volume.name).into(),
                is_ephemeral: true,
            }
        })
    })
}

/// A pod without a node has not begun, and will not with a claim that is being deleted. One that has finished still
/// counts until it is deleted.
fn is_in_use(pod: &Pod, used: &Used<'_>, claim: &ObjectMeta) -> bool {
    if pod.spec.node_name.is_empty() {
        return false;
    }
    !used.is_ephemeral || (!is_shut_down(pod) && is_controlled_by(claim, pod.uid()))
}

/// Its node is done with the pod, or nobody asks the node any more. A finalizer of the pod may wait for the claims
/// that were made for it, so that they must not wait for the pod.
fn is_shut_down(pod: &Pod) -> bool {
    let metadata = &pod.metadata;
    metadata.deletion_timestamp.is_some() && metadata.deletion_grace_period_seconds == Some(0)
}

fn is_controlled_by(claim: &ObjectMeta, uid: &str) -> bool {
    let owners = claim.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    controllers.next().is_some_and(|owner| owner.uid == uid)
}

pub(crate) async fn run(context: Context) -> Result<(), Error> {
    let claims: Api<PartialObjectMeta<PersistentVolumeClaim>> = Api::all(context.reader.clone());
    let pods: Api<Pod> = Api::all(context.reader.clone());
    let keeper = Keeper::<Claims>::new(context);
    let claims = watch(claims, Config::default(), |event| keeper.note(&event));
    let pods = watch(pods, Config::default(), |event| note_pod(&keeper, &event));
    tokio::select! {
        ended = claims => ended,
        ended = pods => ended,
        ended = keeper.work() => ended,
    }
}

fn note_pod(keeper: &Keeper<Claims>, event: &Event<Pod>) {
    let (pod, is_gone) = match event {
        Event::Delete(pod) => (pod, true),
        Event::Apply(pod) | Event::InitApply(pod) if is_shut_down(pod) => (pod, false),
        Event::Apply(_) | Event::InitApply(_) | Event::Init => return,
        Event::InitDone => return keeper.note_gap(),
    };
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    for used in claims_of(pod).filter(|used| is_gone || used.is_ephemeral) {
        keeper.note_left(namespace, &used.name, pod.uid());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(pod: Value, claim: Value, is_used: bool) {
        let read: Pod = serde_json::from_value(pod.clone()).unwrap();
        let claim: ObjectMeta = serde_json::from_value(claim).unwrap();
        let name = claim.name.as_deref().unwrap();
        let mut used = claims_of(&read).filter(|used| used.name == name);
        let found = used.any(|used| is_in_use(&read, &used, &claim));
        assert_eq!(found, is_used, "{pod} {claim:?}");
    }

    fn pod(metadata: Value, node: &str, phase: &str) -> Value {
        let mut pod = json!({
            "metadata": {"name": "p", "uid": "u"},
            "spec": {
                "volumes": [
                    {"name": "none", "emptyDir": {}},
                    {"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                    {"name": "named", "persistentVolumeClaim": {"claimName": "data"}},
                ],
            },
            "status": {"phase": phase},
        });
        if !node.is_empty() {
            pod["spec"]["nodeName"] = json!(node);
        }
        for (key, value) in metadata.as_object().unwrap() {
            pod["metadata"][key] = value.clone();
        }
        pod
    }

    fn owned(uid: &str, controller: Option<bool>) -> Value {
        let owner = json!({
            "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": controller,
        });
        json!({"name": "p-own", "ownerReferences": [owner]})
    }

    #[test]
    fn a_named_claim_is_used_by_every_pod_that_has_a_node() {
        let ending =
            json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0});
        let data = json!({"name": "data"});
        check(pod(json!({}), "n", "Running"), data.clone(), true);
        check(pod(json!({}), "n", "Pending"), data.clone(), true);
        check(pod(json!({}), "n", "Succeeded"), data.clone(), true);
        check(pod(ending, "n", "Running"), data.clone(), true);
        check(pod(json!({}), "", "Pending"), data, false);
        for other in ["own", "none", "p-none", "p-named", "named"] {
            check(
                pod(json!({}), "n", "Running"),
                json!({"name": other}),
                false,
            );
        }
    }

    #[test]
    fn a_claim_made_for_a_pod_is_used_by_that_pod_until_it_is_shut_down() {
        let time = "2026-01-01T00:00:00Z";
        let patient = json!({"deletionTimestamp": time, "deletionGracePeriodSeconds": 30});
        let shut_down = json!({"deletionTimestamp": time, "deletionGracePeriodSeconds": 0});
        let own = owned("u", Some(true));
        check(pod(json!({}), "n", "Running"), own.clone(), true);
        check(pod(patient, "n", "Running"), own.clone(), true);
        check(pod(json!({}), "", "Pending"), own.clone(), false);
        check(pod(shut_down, "n", "Running"), own, false);
        check(
            pod(json!({}), "n", "Running"),
            owned("other", Some(true)),
            false,
        );
        check(pod(json!({}), "n", "Running"), owned("u", None), false);
        check(
            pod(json!({}), "n", "Running"),
            json!({"name": "p-own"}),
            false,
        );
    }
}
