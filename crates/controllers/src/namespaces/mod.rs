//! The end of a namespace: everything in it is deleted, then the namespace itself.
//!
//! Pods go first, and nothing else before they are gone: what guards them (network policies, quotas) outlives
//! them. What is left, and why, stands in the conditions of the namespace (`conditions`).

mod conditions;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::jiff::Timestamp;
use kube::api::{PartialObjectMeta, PostParams};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, ResourceExt};

use self::conditions::Findings;
use crate::error::found;
use crate::queue::{Done, Queue};
use crate::resources::{self, Kind};
use crate::watching::watch;
use crate::{Context, Error};

/// Namespaces that end at the same time.
const WORKERS: usize = 10;
/// Kinds that are deleted at the same time in one namespace.
const KINDS_AT_ONCE: usize = 4;
/// What keeps a namespace until its contents are gone.
const FINALIZER: &str = "kubernetes";
/// How soon a namespace that waits for others is looked at again: the longer it has waited, the later.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);

pub(crate) async fn run(context: Context) -> Result<(), Error> {
    let queue = Queue::new();
    let namespaces: Api<PartialObjectMeta<Namespace>> = Api::all(context.reader.clone());
    let watched = watch(namespaces, Config::default(), |event| {
        if let Event::Apply(namespace) | Event::InitApply(namespace) = event
            && namespace.metadata.deletion_timestamp.is_some()
        {
            queue.add(namespace.name_any());
        }
    });
    let work = queue.work(WORKERS, |name| end(context.client.clone(), name));
    tokio::select! {
        watched = watched => watched,
        worked = work => worked,
    }
}

/// Brings a namespace as near to its end as can be now.
async fn end(client: Client, name: String) -> Result<Done, Error> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let Some(mut namespace) = found(namespaces.get(&name).await)? else {
        return Ok(Done::Yes);
    };
    let Some(since) = namespace.metadata.deletion_timestamp.clone() else {
        return Ok(Done::Yes);
    };
    if !is_held(&namespace) {
        return Ok(Done::Yes);
    }
    let findings = delete_content(&client, &name).await;
    if findings.update(&mut namespace) {
        namespace = namespaces
            .replace_status(&name, &PostParams::default(), &namespace)
            .await?;
    }
    if let Some(error) = findings.error() {
        return Err(error);
    }
    if !findings.is_empty() {
        let waited = Timestamp::now().duration_since(since.0).unsigned_abs();
        return Ok(Done::Again((waited / 4).clamp(PAUSE_MIN, PAUSE_MAX)));
    }
    finalize(&client, namespace).await?;
    Ok(Done::Yes)
}

fn is_held(namespace: &Namespace) -> bool {
    let finalizers = namespace
        .spec
        .as_ref()
        .and_then(|spec| spec.finalizers.as_ref());
    finalizers.is_some_and(|finalizers| finalizers.iter().any(|own| own == FINALIZER))
}

async fn delete_content(client: &Client, namespace: &str) -> Findings {
    let mut findings = Findings::default();
    let kinds = match resources::deletable(client).await {
        Ok(kinds) => kinds,
        Err(error) => {
            findings.undiscovered(error);
            return findings;
        }
    };
    let kinds = kinds.into_iter().filter(|kind| kind.is_namespaced);
    let (pods, others): (Vec<Kind>, Vec<Kind>) = kinds.partition(|kind| kind.is("", "pods"));
    for kinds in [pods, others] {
        let mut left = stream::iter(kinds)
            .map(|kind| async move {
                let left = delete_kind(client, &kind, namespace).await;
                (kind, left)
            })
            .buffer_unordered(KINDS_AT_ONCE);
        while let Some((kind, left)) = left.next().await {
            findings.add(&kind, namespace, left);
        }
        if !findings.is_empty() {
            break;
        }
    }
    findings
}

/// What is left of a kind after all of it was deleted: how many objects, and which finalizers hold how many.
#[derive(Debug, Default)]
struct Left {
    objects: usize,
    /// Of these, those that somebody else is to end: by a finalizer, or in their time of grace.
    awaited: usize,
    finalizers: BTreeMap<String, usize>,
}

async fn delete_kind(client: &Client, kind: &Kind, namespace: &str) -> Result<Left, Error> {
    let objects = kind.in_namespace(client, namespace);
    let mut left = Left::default();
    if resources::is_empty(&objects).await? {
        return Ok(left);
    }
    if kind.can("deletecollection") {
        resources::delete_all(client, kind, namespace).await?;
    } else {
        delete_each(client, kind, namespace).await?;
    }
    resources::each_metadata(&objects, |object| {
        left.objects += 1;
        let is_graceful = object
            .metadata
            .deletion_grace_period_seconds
            .unwrap_or_default()
            > 0;
        if is_graceful || !object.finalizers().is_empty() {
            left.awaited += 1;
        }
        for finalizer in object.finalizers() {
            *left.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    })
    .await?;
    Ok(left)
}

async fn delete_each(client: &Client, kind: &Kind, namespace: &str) -> Result<(), Error> {
    let objects = kind.in_namespace(client, namespace);
    let mut names = Vec::new();
    resources::each_metadata(&objects, |object| names.push(object.name_any())).await?;
    stream::iter(names.into_iter().map(Ok))
        .try_for_each_concurrent(KINDS_AT_ONCE, |name| {
            let objects = &objects;
            async move {
                let params = kube::api::DeleteParams::background();
                found(objects.delete(&name, &params).await).map(drop)
            }
        })
        .await
}

/// Takes the hold off the namespace, which ends it unless others hold it as well.
async fn finalize(client: &Client, mut namespace: Namespace) -> Result<(), Error> {
    if let Some(finalizers) = namespace
        .spec
        .as_mut()
        .and_then(|spec| spec.finalizers.as_mut())
    {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    let body = serde_json::to_vec(&namespace).map_err(|error| Error::Other(error.to_string()))?;
    let request = http::Request::put(format!(
        "/api/v1/namespaces/{}/finalize",
        namespace.name_any()
    ))
    .header(http::header::CONTENT_TYPE, "application/json")
    .body(body)
    .map_err(|error| Error::Other(error.to_string()))?;
    found(client.request::<Namespace>(request).await).map(drop)
}
