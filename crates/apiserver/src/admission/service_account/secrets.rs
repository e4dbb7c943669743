//! The secrets that a pod refers to, and those that its account lets it use.

use std::collections::HashSet;

use rhumb_api::{Object, fields};
use serde_json::Value;

use super::annotation;
use crate::objects::Metadata;

const ENFORCE: &str = "kubernetes.io/enforce-mountable-secrets";

/// Where kinds of volumes name their secrets.
const VOLUME_SECRETS: [&str; 10] = [
    "/azureFile/secretName",
    "/cephfs/secretRef/name",
    "/cinder/secretRef/name",
    "/flexVolume/secretRef/name",
    "/rbd/secretRef/name",
    "/secret/secretName",
    "/scaleIO/secretRef/name",
    "/iscsi/secretRef/name",
    "/storageos/secretRef/name",
    "/csi/nodePublishSecretRef/name",
];

/// Whether the pod names any secret, wherever it could.
pub(super) fn refers_to_any(pod: &Object) -> bool {
    let is_name = |name: &&str| !name.is_empty();
    names(fields::items(pod, "spec.imagePullSecrets")).any(|name| is_name(&name))
        || [
            "spec.initContainers",
            "spec.containers",
            "spec.ephemeralContainers",
        ]
        .into_iter()
        .flat_map(|list| fields::items(pod, list))
        .flat_map(references)
        .any(|reference| is_name(&reference.secret))
        || fields::items(pod, "spec.volumes")
            .iter()
            .any(volume_refers_to_any)
}

fn volume_refers_to_any(volume: &Value) -> bool {
    let is_named = |at: &Value, pointer: &str| {
        let name = at.pointer(pointer).and_then(Value::as_str);
        name.is_some_and(|name| !name.is_empty())
    };
    let projected = volume.pointer("/projected/sources");
    VOLUME_SECRETS.iter().any(|at| is_named(volume, at))
        || projected
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .any(|source| is_named(source, "/secret/name"))
}

/// Whether the pod may use the secrets that it names, if its account cares.
pub(super) fn check_pod(pod: &Object, account: &Object) -> Result<(), String> {
    if !is_enforced(account) {
        return Ok(());
    }
    let mountable = mountable(account);
    let owner = account.name();
    for volume in fields::items(pod, "spec.volumes") {
        let Some(secret) = volume.get("secret").filter(|secret| secret.is_object()) else {
            continue;
        };
        let name = text(secret, "secretName");
        if !mountable.contains(name) {
            return Err(format!(
                "volume with secret.secretName=\"{name}\" is not allowed because service account {owner} does not reference that secret"
            ));
        }
    }
    check_containers(pod, "init container", "spec.initContainers", account)?;
    check_containers(pod, "container", "spec.containers", account)?;
    check_pull_secrets(pod, account)
}

/// The same for the containers that are added to debug a running pod.
pub(super) fn check_ephemeral_containers(pod: &Object, account: &Object) -> Result<(), String> {
    match is_enforced(account) {
        true => check_containers(
            pod,
            "ephemeral container",
            "spec.ephemeralContainers",
            account,
        ),
        false => Ok(()),
    }
}

fn check_containers(pod: &Object, what: &str, list: &str, account: &Object) -> Result<(), String> {
    let mountable = mountable(account);
    for container in fields::items(pod, list) {
        let foreign = references(container).find(|reference| !mountable.contains(reference.secret));
        if let Some(Reference { secret, variable }) = foreign {
            let container = text(container, "name");
            let with = match variable {
                Some(variable) => format!("envVar {variable}"),
                None => "envFrom".to_owned(),
            };
            return Err(format!(
                "{what} {container} with {with} referencing secret.secretName=\"{secret}\" is not allowed because service account {} does not reference that secret",
                account.name()
            ));
        }
    }
    Ok(())
}

fn check_pull_secrets(pod: &Object, account: &Object) -> Result<(), String> {
    let allowed: HashSet<&str> = names(fields::items(account, "imagePullSecrets")).collect();
    let asked = names(fields::items(pod, "spec.imagePullSecrets"));
    match asked.enumerate().find(|(_, name)| !allowed.contains(name)) {
        None => Ok(()),
        Some((index, name)) => Err(format!(
            "imagePullSecrets[{index}].name=\"{name}\" is not allowed because service account {} does not reference that imagePullSecret",
            account.name()
        )),
    }
}

/// The words are those that Go takes for true.
fn is_enforced(account: &Object) -> bool {
    let value = annotation(account, ENFORCE);
    matches!(value, Some("1" | "t" | "T" | "true" | "TRUE" | "True"))
}

fn mountable(account: &Object) -> HashSet<&str> {
    names(fields::items(account, "secrets")).collect()
}

/// A secret in the environment of a container.
struct Reference<'a> {
    secret: &'a str,
    /// The variable that has it; none if it gives all of its own.
    variable: Option<&'a str>,
}

/// Single variables come first, as upstream looks at them.
fn references(container: &Value) -> impl Iterator<Item = Reference<'_>> {
    let single = list(container, "env").filter_map(|variable| {
        let secret = variable.pointer("/valueFrom/secretKeyRef")?;
        secret.is_object().then(|| Reference {
            secret: text(secret, "name"),
            variable: Some(text(variable, "name")),
        })
    });
    let whole = list(container, "envFrom").filter_map(|source| {
        let secret = source.get("secretRef")?;
        secret.is_object().then(|| Reference {
            secret: text(secret, "name"),
            variable: None,
        })
    });
    single.chain(whole)
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    let items = value.get(field).and_then(Value::as_array);
    items.into_iter().flatten()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn names(references: &[Value]) -> impl Iterator<Item = &str> {
    references.iter().map(|reference| text(reference, "name"))
}
