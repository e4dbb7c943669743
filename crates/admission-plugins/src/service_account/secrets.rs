//! The secrets that a pod references, and the check whether its account allows them.

use std::collections::HashSet;

use rhumb_api::{JsonObject, fields};
use serde_json::Value;

use super::annotation;
use rhumb_registry::objects::ObjectMetadata;

const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

/// JSON pointers to the secret names in volumes.
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

/// Whether the pod references any secret.
pub(super) fn references_any_secret(pod: &JsonObject) -> bool {
    let is_set = |name: &&str| !name.is_empty();
    names(fields::items(pod, "spec.imagePullSecrets")).any(|name| is_set(&name))
        || [
            "spec.initContainers",
            "spec.containers",
            "spec.ephemeralContainers",
        ]
        .into_iter()
        .flat_map(|list| fields::items(pod, list))
        .flat_map(env_secret_references)
        .any(|reference| is_set(&reference.secret))
        || fields::items(pod, "spec.volumes")
            .iter()
            .any(volume_references_any_secret)
}

fn volume_references_any_secret(volume: &Value) -> bool {
    let names_secret = |volume_source: &Value, pointer: &str| {
        let name = volume_source.pointer(pointer).and_then(Value::as_str);
        name.is_some_and(|name| !name.is_empty())
    };
    let projected = volume.pointer("/projected/sources");
    VOLUME_SECRETS
        .iter()
        .any(|volume_source| names_secret(volume, volume_source))
        || projected
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .any(|source| names_secret(source, "/secret/name"))
}

/// Checks that the account allows the secrets that the pod references, if the account enforces that.
pub(super) fn check_pod(pod: &JsonObject, account: &JsonObject) -> Result<(), String> {
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

/// The same for ephemeral containers.
pub(super) fn check_ephemeral_containers(
    pod: &JsonObject,
    account: &JsonObject,
) -> Result<(), String> {
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

fn check_containers(
    pod: &JsonObject,
    container_type: &str,
    list: &str,
    account: &JsonObject,
) -> Result<(), String> {
    let mountable = mountable(account);
    for container in fields::items(pod, list) {
        let foreign = env_secret_references(container)
            .find(|reference| !mountable.contains(reference.secret));
        if let Some(EnvSecretReference { secret, variable }) = foreign {
            let container = text(container, "name");
            let with = match variable {
                Some(variable) => format!("envVar {variable}"),
                None => "envFrom".to_owned(),
            };
            return Err(format!(
                "{container_type} {container} with {with} referencing secret.secretName=\"{secret}\" is not allowed because service account {} does not reference that secret",
                account.name()
            ));
        }
    }
    Ok(())
}

fn check_pull_secrets(pod: &JsonObject, account: &JsonObject) -> Result<(), String> {
    let allowed: HashSet<&str> = names(fields::items(account, "imagePullSecrets")).collect();
    let requested = names(fields::items(pod, "spec.imagePullSecrets"));
    match requested
        .enumerate()
        .find(|(_, name)| !allowed.contains(name))
    {
        None => Ok(()),
        Some((index, name)) => Err(format!(
            "imagePullSecrets[{index}].name=\"{name}\" is not allowed because service account {} does not reference that imagePullSecret",
            account.name()
        )),
    }
}

/// Accepts what Go's `strconv.ParseBool` takes for true.
fn is_enforced(account: &JsonObject) -> bool {
    let value = annotation(account, ENFORCE_MOUNTABLE_SECRETS);
    matches!(value, Some("1" | "t" | "T" | "true" | "TRUE" | "True"))
}

fn mountable(account: &JsonObject) -> HashSet<&str> {
    names(fields::items(account, "secrets")).collect()
}

/// A reference to a secret in the environment of a container.
struct EnvSecretReference<'a> {
    secret: &'a str,
    /// The variable that uses it; `None` for `envFrom`.
    variable: Option<&'a str>,
}

/// References by `env` come before those by `envFrom`, as upstream checks them.
fn env_secret_references(container: &Value) -> impl Iterator<Item = EnvSecretReference<'_>> {
    let single = list(container, "env").filter_map(|variable| {
        let secret = variable.pointer("/valueFrom/secretKeyRef")?;
        secret.is_object().then(|| EnvSecretReference {
            secret: text(secret, "name"),
            variable: Some(text(variable, "name")),
        })
    });
    let whole = list(container, "envFrom").filter_map(|source| {
        let secret = source.get("secretRef")?;
        secret.is_object().then(|| EnvSecretReference {
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
