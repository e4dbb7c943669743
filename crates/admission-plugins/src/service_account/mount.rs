//! Mounts the service account token, the cluster's CA and the namespace name where programs in a pod expect them.

use rhumb_api::{JsonObject, fields};
use serde_json::{Value, json};

use rhumb_registry::generate_name;

const VOLUME_PREFIX: &str = "kube-api-access-";
const PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// One hour plus 7 seconds: the token request recognizes this number and may extend the token, for clients that read it
/// only once.
const EXPIRATION_SECONDS: i64 = 60 * 60 + 7;
const FILE_MODE: i64 = 0o644;

/// Mounts the token in all containers that have no mount at its path. Ephemeral containers specify their own mounts.
pub(super) fn mount_token(pod: &mut JsonObject) {
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
            is_used |= add_mount(container, &name);
        }
    }
    if is_new
        && is_used
        && let Some(spec) = fields::object_or_insert(pod, "spec")
    {
        push(spec, "volumes", token_volume(&name));
    }
}

/// Adds the mount; returns false if the container has one at that path.
fn add_mount(container: &mut JsonObject, volume: &str) -> bool {
    let mounts = fields::items(container, "volumeMounts");
    if mounts.iter().any(|mount| mount["mountPath"] == PATH) {
        return false;
    }
    let mount = json!({"name": volume, "readOnly": true, "mountPath": PATH});
    push(container, "volumeMounts", mount);
    true
}

fn push(object: &mut JsonObject, list: &str, item: Value) {
    match object.get_mut(list).and_then(Value::as_array_mut) {
        Some(items) => items.push(item),
        None => fields::set(object, list, vec![item]),
    }
}

fn token_volume(name: &str) -> Value {
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

/// Whether a volume of the pod projects a service account token.
pub(super) fn projects_token(pod: &JsonObject) -> bool {
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
