//! The ServiceAccount plugin: sets a pod's service account, which must exist, and mounts its token.
//!
//! `mount.rs` adds the token volume and its mounts, `secrets.rs` finds the secrets that a pod references and checks
//! whether its account allows them.

mod mount;
mod secrets;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rhumb_api::{JsonObject, fields};
use rhumb_meta::{GroupResource, ObjectKey, Status};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::object_lookup;
use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin, Operation};
use rhumb_registry::objects::ObjectMetadata;

const DEFAULT_ACCOUNT: &str = "default";
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// How long to wait for the account `default`, which a controller creates shortly after the namespace; as long as
/// upstream's retries take.
const DEFAULT_WAIT_MAX: Duration = Duration::from_millis(1500);

/// The interval of checking for the account: each check is one cache read.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

#[derive(Debug)]
pub(super) struct ServiceAccountPlugin;

#[async_trait]
impl AdmissionPlugin for ServiceAccountPlugin {
    fn handles(&self, _step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.is_resource_or_subresource("", "pods")
    }

    async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&mut JsonObject>,
    ) -> Result<(), Status> {
        let Some(pod) = object.filter(|_| is_new_pod(attributes)) else {
            return Ok(());
        };
        // The kubelet deletes a mirror pod that differs from the one it created.
        if is_mirror(pod) {
            return check_mirror(pod).map_err(|reason| attributes.forbidden(Some(pod), reason));
        }
        set_default_account(pod);
        let account = account_of(attributes, pod).await?;
        apply_account(pod, &account);
        secrets::check_pod(pod, &account).map_err(|reason| attributes.forbidden(Some(pod), reason))
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        let Some(pod) = object else {
            return Ok(());
        };
        let forbidden = |reason: String| attributes.forbidden(Some(pod), reason);
        if is_new_pod(attributes) {
            if is_mirror(pod) {
                return check_mirror(pod).map_err(|reason| forbidden(reason.to_owned()));
            }
            let account = account_of(attributes, pod).await?;
            return secrets::check_pod(pod, &account).map_err(forbidden);
        }
        if changes_ephemeral_containers(attributes) {
            let account = account_of(attributes, pod).await?;
            return secrets::check_ephemeral_containers(pod, &account)
                .map_err(Status::unclassified);
        }
        Ok(())
    }
}

fn is_new_pod(attributes: &AdmissionAttributes<'_>) -> bool {
    attributes.operation == Operation::Create && attributes.is_resource("", "pods")
}

fn changes_ephemeral_containers(attributes: &AdmissionAttributes<'_>) -> bool {
    attributes.operation == Operation::Update
        && attributes.is_resource_or_subresource("", "pods")
        && attributes.subresource() == "ephemeralcontainers"
}

fn annotation<'a>(object: &'a JsonObject, key: &str) -> Option<&'a str> {
    object.metadata()?.get("annotations")?.get(key)?.as_str()
}

/// Whether it is a mirror pod: the API object of a static pod of a kubelet.
fn is_mirror(pod: &JsonObject) -> bool {
    annotation(pod, MIRROR_ANNOTATION).is_some()
}

/// A mirror pod must not use accounts or secrets: the kubelet has no permission for those of the namespace.
fn check_mirror(pod: &JsonObject) -> Result<(), &'static str> {
    if !account_name(pod).is_empty() {
        return Err("a mirror pod may not reference service accounts");
    }
    if secrets::references_any_secret(pod) {
        return Err("a mirror pod may not reference secrets");
    }
    if mount::projects_token(pod) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections");
    }
    Ok(())
}

fn account_name(pod: &JsonObject) -> &str {
    fields::str(pod, "spec.serviceAccountName")
}

fn set_default_account(pod: &mut JsonObject) {
    if account_name(pod).is_empty() {
        fields::set(pod, "spec.serviceAccountName", DEFAULT_ACCOUNT);
        fields::set(pod, "spec.serviceAccount", DEFAULT_ACCOUNT);
    }
}

/// Applies the account to the pod: token volume and image pull secrets.
fn apply_account(pod: &mut JsonObject, account: &JsonObject) {
    if wants_token(pod, account) {
        mount::mount_token(pod);
    }
    let pod_secrets = fields::items(pod, "spec.imagePullSecrets");
    let account_secrets = fields::items(account, "imagePullSecrets");
    if pod_secrets.is_empty() && !account_secrets.is_empty() {
        fields::set(pod, "spec.imagePullSecrets", account_secrets);
    }
}

/// Whether to mount a token: the pod's `automountServiceAccountToken` takes precedence over the account's.
fn wants_token(pod: &JsonObject, account: &JsonObject) -> bool {
    let flag = |object, path| fields::get(object, path).and_then(Value::as_bool);
    flag(pod, "spec.automountServiceAccountToken")
        .or_else(|| flag(account, "automountServiceAccountToken"))
        .unwrap_or(true)
}

async fn account_of(
    attributes: &AdmissionAttributes<'_>,
    pod: &JsonObject,
) -> Result<Arc<JsonObject>, Status> {
    let namespace = attributes.context.namespace().unwrap_or_default();
    let name = account_name(pod);
    if name.is_empty() {
        let reason = format!(
            "no service account specified for pod {namespace}/{}",
            pod.name()
        );
        return Err(attributes.forbidden(Some(pod), reason));
    }
    find_account(attributes, namespace, name)
        .await
        .map_err(|error| {
            let reason = format!("error looking up service account {namespace}/{name}: {error}");
            attributes.forbidden(Some(pod), reason)
        })
}

async fn find_account(
    attributes: &AdmissionAttributes<'_>,
    namespace: &str,
    name: &str,
) -> Result<Arc<JsonObject>, Status> {
    let missing = || Status::not_found(&GroupResource::new("", "serviceaccount"), name);
    let key = ObjectKey::new(Some(namespace), name).map_err(|_| missing())?;
    let (context, plural) = (attributes.context, "serviceaccounts");
    if let Some(account) = object_lookup::find_object(context, "", plural, &key).await? {
        return Ok(account);
    }
    let until = Instant::now() + DEFAULT_WAIT_MAX;
    while name == DEFAULT_ACCOUNT && Instant::now() < until {
        sleep(POLL_INTERVAL).await;
        if let Some(account) = object_lookup::cached_object(context, "", plural, &key)? {
            return Ok(account);
        }
    }
    Err(missing())
}
