//! PVC protection controller: keeps PersistentVolumeClaims while a scheduled pod uses them.

use std::borrow::Cow;
use std::collections::HashMap;

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ApiResource, DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::Config;
use kube::{Api, Client};

use super::partial_objects::PartialPod;
use super::protection_controller::ProtectionController;
use super::{HoldersByObject, ProtectedKind, for_each};
use crate::namespaced_name::namespaced_name;
use crate::{ControllerContext, Error};
use rhumb_client::informer::{Event, watch};

struct ClaimProtection;

impl ProtectedKind for ClaimProtection {
    const FINALIZER: &'static str = "kubernetes.io/pvc-protection";

    fn api(client: Client, namespace: &str) -> Api<DynamicObject> {
        let kind = ApiResource::erase::<PersistentVolumeClaim>(&());
        Api::namespaced_with(client, namespace, &kind)
    }

    async fn holders(
        reader: &Client,
        namespace: &str,
        terminating: &HashMap<String, DynamicObject>,
    ) -> Result<HoldersByObject, Error> {
        let mut holders = HoldersByObject::new();
        let pods: Api<PartialPod> = Api::namespaced(reader.clone(), namespace);
        for_each(&pods, |pod| {
            for used in claims_of(&pod) {
                let Some(claim) = terminating.get(used.name.as_ref()) else {
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

/// A use of a claim by one of a pod's volumes.
#[derive(Debug, PartialEq, Eq)]
struct ClaimUse<'a> {
    name: Cow<'a, str>,
    /// The claim was created for a generic ephemeral volume and is owned by the pod.
    is_ephemeral: bool,
}

fn claims_of(pod: &PartialPod) -> impl Iterator<Item = ClaimUse<'_>> {
    pod.spec.volumes.iter().filter_map(|volume| {
        if let Some(claim) = &volume.persistent_volume_claim {
            return Some(ClaimUse {
                name: claim.claim_name.as_str().into(),
                is_ephemeral: false,
            });
        }
        volume.ephemeral.as_ref().map(|_| {
            let pod = pod.metadata.name.as_deref().unwrap_or_default();
            ClaimUse {
                name: format!("{pod}-{}", volume.name).into(),
                is_ephemeral: true,
            }
        })
    })
}

/// An unscheduled pod does not use the claim, and cannot be started with a terminating one. A finished pod counts until
/// it is deleted.
fn is_in_use(pod: &PartialPod, used: &ClaimUse<'_>, claim: &ObjectMeta) -> bool {
    if pod.spec.node_name.is_empty() {
        return false;
    }
    !used.is_ephemeral || (!is_shut_down(pod) && is_controlled_by(claim, pod.uid()))
}

/// Whether the kubelet has terminated the pod, or it was force-deleted. A finalizer of the pod may wait for its
/// ephemeral claims, so these must not wait for the pod.
fn is_shut_down(pod: &PartialPod) -> bool {
    let metadata = &pod.metadata;
    metadata.deletion_timestamp.is_some() && metadata.deletion_grace_period_seconds == Some(0)
}

fn is_controlled_by(claim: &ObjectMeta, uid: &str) -> bool {
    let owners = claim.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    controllers.next().is_some_and(|owner| owner.uid == uid)
}

pub(crate) async fn run(context: ControllerContext) -> Result<(), Error> {
    let claims: Api<PartialObjectMeta<PersistentVolumeClaim>> = Api::all(context.reader.clone());
    let pods: Api<PartialPod> = Api::all(context.reader.clone());
    let worker = ProtectionController::<ClaimProtection>::new(context);
    let claims = watch(claims, Config::default(), namespaced_name, |event| {
        worker.handle_event(&event);
    });
    let pods = watch(pods, Config::default(), holder_of, |event| {
        handle_pod_event(&worker, &event);
    });
    tokio::select! {
        ended = claims => ended,
        ended = pods => ended,
        ended = worker.run_workers() => ended,
    }
}

/// Namespace and uid of a pod.
type Holder = (String, String);

fn holder_of(pod: &PartialPod) -> Holder {
    let namespace = pod.metadata.namespace.clone();
    (namespace.unwrap_or_default(), pod.uid().to_owned())
}

fn handle_pod_event(
    worker: &ProtectionController<ClaimProtection>,
    event: &Event<PartialPod, Holder>,
) {
    match event {
        Event::Deleted((namespace, uid)) => worker.retain_uses(namespace, &[], uid),
        Event::Applied(pod) if is_shut_down(pod) => {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            for used in claims_of(pod).filter(|used| used.is_ephemeral) {
                worker.remove_holder(namespace, &used.name, pod.uid());
            }
        }
        Event::Applied(_) => {}
        Event::Replaced(_) => worker.handle_relist(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(pod: Value, claim: Value, is_used: bool) {
        let read: PartialPod = serde_json::from_value(pod.clone()).unwrap();
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
    fn a_named_claim_is_used_by_every_assigned_pod() {
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
    fn an_ephemeral_claim_is_used_by_its_pod_until_the_pod_is_shut_down() {
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
