//! The end of a namespace: everything in it is deleted, then the namespace itself.
//!
//! Pods go first, and nothing else before they are gone: what guards them (network policies, quotas) outlives
//! them. What is left, and why, stands in the conditions of the namespace (`conditions`).

mod conditions;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, PartialObjectMeta, PostParams, Preconditions};
use kube::core::DynamicObject;
use kube::discovery::verbs;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, ResourceExt};

use self::conditions::Findings;
use crate::queue::{Done, Queue};
use crate::resources::{self, Kind};
use crate::{Context, Error};
use rhumb_client::error::found;
use rhumb_client::watching::watch;

/// Namespaces that end at the same time.
const WORKERS: usize = 10;
/// Kinds that are deleted at the same time in one namespace.
const KINDS_AT_ONCE: usize = 4;
/// What keeps a namespace until its contents are gone.
const FINALIZER: &str = "kubernetes";
/// How soon a namespace that waits for others is looked at again: the longer it has waited, the later.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(8);

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
    let waits = Waits::default();
    let work = queue.work(WORKERS, |name| end(&context.client, &waits, name));
    tokio::select! {
        watched = watched => watched,
        worked = work => worked,
    }
}

/// What namespaces wait for: the kinds of which something was left, by name. Nothing can come into a namespace that
/// ends, so as long as these are not gone, nobody has to look at the others.
#[derive(Default)]
struct Waits(Mutex<HashMap<String, Wait>>);

/// What one namespace waits for. Another of its name waits for other things.
struct Wait {
    uid: Option<String>,
    kinds: Vec<Kind>,
}

impl Waits {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Wait>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Brings a namespace as near to its end as can be now.
async fn end(client: &Client, waits: &Waits, name: String) -> Result<Done, Error> {
    let wait = waits.lock().remove(&name);
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
    let content = Content {
        client: client.clone(),
        namespace: name.clone(),
        uid: namespace.uid(),
    };
    let waited_for = wait
        .filter(|wait| wait.uid == content.uid)
        .map_or_else(Vec::new, |wait| wait.kinds);
    let Some(findings) = content.delete(waited_for).await else {
        return Ok(Done::Yes);
    };
    if findings.update(&mut namespace) {
        namespace = namespaces
            .replace_status(&name, &PostParams::default(), &namespace)
            .await?;
    }
    if let Some(error) = findings.error() {
        return Err(error);
    }
    if !findings.is_empty() {
        let wait = Wait {
            uid: content.uid,
            kinds: findings.left,
        };
        waits.lock().insert(name, wait);
        let waited = Timestamp::now().duration_since(since.0).unsigned_abs();
        return Ok(Done::Again((waited / 4).clamp(PAUSE_MIN, PAUSE_MAX)));
    }
    finalize(client, namespace).await?;
    Ok(Done::Yes)
}

fn is_held(namespace: &Namespace) -> bool {
    let finalizers = namespace
        .spec
        .as_ref()
        .and_then(|spec| spec.finalizers.as_ref());
    finalizers.is_some_and(|finalizers| finalizers.iter().any(|own| own == FINALIZER))
}

/// What is left of a kind after all of it was deleted: how many objects, and which finalizers hold how many.
#[derive(Debug, Default)]
struct Left {
    objects: usize,
    /// Of these, those that somebody else is to end: by a finalizer, or in their time of grace.
    awaited: usize,
    finalizers: BTreeMap<String, usize>,
}

impl Left {
    fn count(&mut self, object: &PartialObjectMeta<DynamicObject>) {
        self.objects += 1;
        let grace = object.metadata.deletion_grace_period_seconds;
        if grace.unwrap_or_default() > 0 || !object.finalizers().is_empty() {
            self.awaited += 1;
        }
        for finalizer in object.finalizers() {
            *self.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }
}

/// Everything in a namespace that ends.
struct Content {
    client: Client,
    namespace: String,
    uid: Option<String>,
}

impl Content {
    /// `None` if the namespace is gone: what has its name now is another, whose contents stay. If something is left
    /// of the kinds that were waited for, that is all that is looked at.
    async fn delete(&self, waited_for: Vec<Kind>) -> Option<Findings> {
        if !waited_for.is_empty() {
            let mut findings = Findings::default();
            self.delete_kinds(waited_for, &mut findings).await?;
            if findings.has_content() {
                return Some(findings);
            }
        }
        self.delete_everything().await
    }

    async fn delete_everything(&self) -> Option<Findings> {
        let mut findings = Findings::default();
        let discovered = match resources::discover(&self.client).await {
            Ok(discovered) => discovered,
            Err(error) => {
                findings.undiscovered(error.to_string());
                return Some(findings);
            }
        };
        if let Some(failure) = discovered.failure() {
            findings.undiscovered(failure);
        }
        let kinds = discovered
            .best()
            .filter(|kind| kind.is_namespaced && kind.can(verbs::DELETE) && kind.can(verbs::LIST));
        let (pods, others): (Vec<Kind>, Vec<Kind>) =
            kinds.cloned().partition(|kind| kind.is("", "pods"));
        for kinds in [pods, others] {
            self.delete_kinds(kinds, &mut findings).await?;
            if findings.has_content() {
                break;
            }
        }
        Some(findings)
    }

    async fn delete_kinds(&self, kinds: Vec<Kind>, findings: &mut Findings) -> Option<()> {
        let mut left = stream::iter(kinds)
            .map(|kind| async move {
                let left = self.delete_kind(&kind).await;
                (kind, left)
            })
            .buffer_unordered(KINDS_AT_ONCE);
        while let Some((kind, left)) = left.next().await {
            let left = left.transpose()?;
            findings.add(kind, &self.namespace, left);
        }
        Some(())
    }

    /// `None` if the namespace is gone.
    async fn delete_kind(&self, kind: &Kind) -> Result<Option<Left>, Error> {
        let objects = kind.in_namespace(&self.client, &self.namespace);
        let mut left = Left::default();
        if resources::is_empty(&objects).await? {
            return Ok(Some(left));
        }
        if !self.is_ending().await? {
            return Ok(None);
        }
        if kind.can(verbs::DELETE_COLLECTION) {
            resources::delete_all(&self.client, kind, &self.namespace).await?;
        } else {
            self.delete_each(&objects).await?;
        }
        resources::each_metadata(&objects, |object| left.count(object)).await?;
        Ok(Some(left))
    }

    /// A deletion of all objects cannot say of which namespace, if one came after another. So it is looked up
    /// just before: somebody else may have ended it meanwhile.
    async fn is_ending(&self) -> Result<bool, Error> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let now = found(namespaces.get_metadata(&self.namespace).await)?;
        Ok(now
            .is_some_and(|now| now.uid() == self.uid && now.metadata.deletion_timestamp.is_some()))
    }

    async fn delete_each(&self, objects: &Api<DynamicObject>) -> Result<(), Error> {
        let mut names = Vec::new();
        resources::each_metadata(objects, |object| {
            names.push((object.name_any(), object.uid()));
        })
        .await?;
        stream::iter(names.into_iter().map(Ok))
            .try_for_each_concurrent(KINDS_AT_ONCE, |(name, uid)| async move {
                let params = DeleteParams {
                    preconditions: Some(Preconditions {
                        uid,
                        resource_version: None,
                    }),
                    ..DeleteParams::background()
                };
                found(objects.delete(&name, &params).await).map(drop)
            })
            .await
    }
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
