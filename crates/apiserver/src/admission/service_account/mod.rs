//! Pods run as an account of their namespace, which must exist, and carry its token.
//!
//! `mount.rs` puts the token where programs look for it, `secrets.rs` knows which secrets a pod refers to and
//! which of them its account lets it use.

mod mount;
mod secrets;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rhumb_api::{Object, fields};
use rhumb_meta::{GroupResource, ObjectKey, Status};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{Attributes, Operation, Plugin, Step, lookup};
use crate::objects::Metadata;

const DEFAULT: &str = "default";
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A controller makes the account `default` a moment after its namespace. Who is quicker waits for this long, which
/// is what upstream takes for its attempts.
const DEFAULT_WAIT_MAX: Duration = Duration::from_millis(1500);

/// Looking costs one read of the cache.
const LOOK_AGAIN: Duration = Duration::from_millis(25);

#[derive(Debug)]
pub(super) struct ServiceAccount;

#[async_trait]
impl Plugin for ServiceAccount {
    fn takes_part(&self, _step: Step, attributes: &Attributes<'_>) -> bool {
        attributes.is_below("", "pods")
    }

    async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Object>,
    ) -> Result<(), Status> {
        let Some(pod) = object.filter(|_| is_new_pod(attributes)) else {
            return Ok(());
        };
        // The kubelet takes a mirror pod away when it is not what the kubelet made it.
        if is_mirror(pod) {
            return check_mirror(pod).map_err(|reason| attributes.forbidden(Some(pod), reason));
        }
        set_default_account(pod);
        let account = account_of(attributes, pod).await?;
        complete(pod, &account);
        secrets::check_pod(pod, &account).map_err(|reason| attributes.forbidden(Some(pod), reason))
    }

    async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Object>,
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

fn is_new_pod(attributes: &Attributes<'_>) -> bool {
    attributes.operation == Operation::Create && attributes.is_about("", "pods")
}

fn changes_ephemeral_containers(attributes: &Attributes<'_>) -> bool {
    attributes.operation == Operation::Update
        && attributes.is_below("", "pods")
        && attributes.subresource() == "ephemeralcontainers"
}

fn annotation<'a>(object: &'a Object, key: &str) -> Option<&'a str> {
    object.metadata()?.get("annotations")?.get(key)?.as_str()
}

/// Whether it only shows what a kubelet runs of its own accord.
fn is_mirror(pod: &Object) -> bool {
    annotation(pod, MIRROR).is_some()
}

/// Nobody gave a kubelet the right to use accounts and secrets of namespaces.
fn check_mirror(pod: &Object) -> Result<(), &'static str> {
    if !account_name(pod).is_empty() {
        return Err("a mirror pod may not reference service accounts");
    }
    if secrets::refers_to_any(pod) {
        return Err("a mirror pod may not reference secrets");
    }
    if mount::projects_token(pod) {
        return Err("a mirror pod may not use ServiceAccountToken volume projections");
    }
    Ok(())
}

fn account_name(pod: &Object) -> &str {
    fields::str(pod, "spec.serviceAccountName")
}

fn set_default_account(pod: &mut Object) {
    if account_name(pod).is_empty() {
        fields::set(pod, "spec.serviceAccountName", DEFAULT);
        fields::set(pod, "spec.serviceAccount", DEFAULT);
    }
}

/// Gives the pod what its account has for it.
fn complete(pod: &mut Object, account: &Object) {
    if wants_token(pod, account) {
        mount::token(pod);
    }
    let own = fields::items(pod, "spec.imagePullSecrets");
    let given = fields::items(account, "imagePullSecrets");
    if own.is_empty() && !given.is_empty() {
        fields::set(pod, "spec.imagePullSecrets", given);
    }
}

/// The pod's wish comes before the account's.
fn wants_token(pod: &Object, account: &Object) -> bool {
    let wish = |object, path| fields::get(object, path).and_then(Value::as_bool);
    wish(pod, "spec.automountServiceAccountToken")
        .or_else(|| wish(account, "automountServiceAccountToken"))
        .unwrap_or(true)
}

async fn account_of(attributes: &Attributes<'_>, pod: &Object) -> Result<Arc<Object>, Status> {
    let namespace = attributes.call.namespace().unwrap_or_default();
    let name = account_name(pod);
    if name.is_empty() {
        let reason = format!(
            "no service account specified for pod {namespace}/{}",
            pod.name()
        );
        return Err(attributes.forbidden(Some(pod), reason));
    }
    find(attributes, namespace, name).await.map_err(|error| {
        let reason = format!("error looking up service account {namespace}/{name}: {error}");
        attributes.forbidden(Some(pod), reason)
    })
}

async fn find(
    attributes: &Attributes<'_>,
    namespace: &str,
    name: &str,
) -> Result<Arc<Object>, Status> {
    let missing = || Status::not_found(&GroupResource::new("", "serviceaccount"), name);
    let key = ObjectKey::new(Some(namespace), name).map_err(|_| missing())?;
    let (call, plural) = (attributes.call, "serviceaccounts");
    if let Some(account) = lookup::anywhere(call, "", plural, &key).await? {
        return Ok(account);
    }
    let until = Instant::now() + DEFAULT_WAIT_MAX;
    while name == DEFAULT && Instant::now() < until {
        sleep(LOOK_AGAIN).await;
        if let Some(account) = lookup::cached(call, "", plural, &key)? {
            return Ok(account);
        }
    }
    Err(missing())
}
