//! The token, the cluster's CA and the name of the namespace, where programs in a pod look for them.

use rhumb_api::{Object, fields};
use serde_json::{Value, json};

use crate::resources::generate_name;

const VOLUME_PREFIX: &str = "kube-api-access-";
const PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// By this number the token request knows that a token may outlive it, for programs that read theirs only once.
const EXPIRATION_SECONDS: i64 = 60 * 60 + 7;
const FILE_MODE: i64 = 0o644;

/// Mounts the token in all containers that have nothing at its place. Those that are added to debug a running pod
/// say themselves what they mount.
pub(super) fn token(pod: &mut Object) {
    let existing = fields::items(pod, "spec.volumes")
        .iter()
        .filter_map(|volume| volume.get("name")?.as_str())
        .find(|name| name.starts_with(VOLUME_PREFIX))
        .map(str::to_owned);
    let is_new = existing.is_none();
    let name = existing.unwrap_or_else(|| generate_name(VOLUME_PREFIX));
    let mut is_used = false;
    for list in ["spec.initContainers", "spec.containers"] {
        for container in fields::objects_mut(pod, list) {
            is_used |= mount(container, &name);
        }
    }
    if is_new
        && is_used
        && let Some(spec) = fields::object_at(pod, "spec")
    {
        push(spec, "volumes", volume(&name));
    }
}

/// Whether the container had nothing at that place.
fn mount(container: &mut Object, volume: &str) -> bool {
    let mounts = fields::items(container, "volumeMounts");
    if mounts.iter().any(|mount| mount["mountPath"] == PATH) {
        return false;
    }
    let mount = json!({"name": volume, "readOnly": true, "mountPath": PATH});
    push(container, "volumeMounts", mount);
    true
}

fn push(object: &mut Object, list: &str, item: Value) {
    match object.get_mut(list).and_then(Value::as_array_mut) {
        Some(items) => items.push(item),
        None => fields::set(object, list, vec![item]),
    }
}

fn volume(name: &str) -> Value {
    json!({
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": EXPIRATION_SECONDS, "path": "token"}},
                {"configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                }},
                {"downwardAPI": {"items": [{
                    "path": "namespace",
                    "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                }]}},
            ],
            "defaultMode": FILE_MODE,
        },
    })
}

/// Whether a volume of the pod has a token of its account.
pub(super) fn projects_token(pod: &Object) -> bool {
    fields::items(pod, "spec.volumes")
        .iter()
        .filter_map(|volume| volume.get("projected")?.get("sources")?.as_array())
        .flatten()
        .any(|source| {
            source
                .get("serviceAccountToken")
                .is_some_and(Value::is_object)
        })
}
