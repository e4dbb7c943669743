//! A pod is asked to leave, as far as its disruption budgets allow.

use async_trait::async_trait;
use rhumb_api::Object;
use rhumb_meta::{ObjectKey, Status};
use serde_json::Value;

use super::budget::{self, Leave};
use super::conditions::{self, status_of};
use crate::admission::Operation;
use crate::http::Reply;
use crate::objects::Metadata;
use crate::request::{DeleteOptions, WriteOptions};
use crate::resources::codec::Expected;
use crate::resources::create::place_in_namespace;
use crate::resources::delete::{Admission, check_preconditions, delete_key};
use crate::resources::write::{ATTEMPTS_MAX, Change, Current, Edit};
use crate::resources::{Call, Claim};

const API_VERSION: &str = "policy/v1";
const KIND: &str = "Eviction";

pub(super) async fn evict(call: &Call<'_>) -> Result<Reply, Status> {
    let write = WriteOptions::parse(call.query, "CreateOptions")?;
    let expected = Expected {
        api_version: API_VERSION,
        kind: KIND,
        schema: call.api.type_named("io.k8s.api.policy.v1.Eviction")?,
    };
    let mut eviction = call.decode(expected, write.field_validation)?;
    if !eviction.name().is_empty() && eviction.name() != call.name() {
        return Err(Status::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    place_in_namespace(call, &mut eviction)?;
    let attributes = call.attributes(Operation::Create, None, write.dry_run);
    let chain = &call.api.admission;
    chain.admit(&attributes, Some(&mut eviction)).await?;
    let body = eviction
        .get("deleteOptions")
        .map(Value::to_string)
        .unwrap_or_default();
    let mut options = DeleteOptions::parse(call.query, body.as_bytes())?;
    options.dry_run |= write.dry_run;
    let key = call.key()?;
    let mut conflict = call.modified(key.name());
    for _ in 0..ATTEMPTS_MAX {
        match leave(call, &key, &options).await? {
            Outcome::Left => return super::created(call),
            Outcome::Changed(status) => conflict = status,
        }
    }
    Err(conflict)
}

/// What became of a pod that was to leave.
enum Outcome {
    Left,
    /// It is no longer as it was when it might leave, which must be looked at anew.
    Changed(Status),
}

async fn leave(call: &Call<'_>, key: &ObjectKey, asked: &DeleteOptions) -> Result<Outcome, Status> {
    let pod = call.current(key).await?;
    if pod.object.is_deleting() || is_over(&pod.object) {
        // Nothing that happens meanwhile makes it count again.
        remove(call, key, asked.clone()).await?;
        return Ok(Outcome::Left);
    }
    // Whoever names a version means that one and no other.
    let may_look_again = asked.precondition_resource_version.is_none();
    let as_it_is = || {
        let mut options = asked.clone();
        let version = &mut options.precondition_resource_version;
        version.get_or_insert_with(|| pod.revision.to_string());
        options
    };
    if phase(&pod.object) == Some("Pending") {
        // It disturbs nobody. Should it come to run meanwhile, its budget must be asked after all.
        return match remove(call, key, as_it_is()).await {
            Err(status) if status.is_conflict() && may_look_again => Ok(Outcome::Changed(status)),
            outcome => outcome.map(|()| Outcome::Left),
        };
    }
    match budget::ask(call, &pod.object, asked.dry_run).await? {
        Leave::Given => {
            let mut options = asked.clone();
            let uid = &mut options.precondition_uid;
            uid.get_or_insert_with(|| pod.object.uid().to_owned());
            remove(call, key, options).await?;
        }
        Leave::AsItIs(budget) => match remove(call, key, as_it_is()).await {
            Err(status) if status.is_conflict() && may_look_again => {
                return Err(budget::still_processed(&budget));
            }
            outcome => outcome?,
        },
    }
    Ok(Outcome::Left)
}

fn is_over(pod: &Object) -> bool {
    matches!(phase(pod), Some("Succeeded" | "Failed"))
}

fn phase(pod: &Object) -> Option<&str> {
    pod.get("status")?.get("phase")?.as_str()
}

/// Notes on the pod why it goes, then deletes it.
async fn remove(
    call: &Call<'_>,
    key: &ObjectKey,
    mut options: DeleteOptions,
) -> Result<(), Status> {
    if !options.dry_run {
        let mark = Mark {
            call,
            options: &options,
        };
        let marked = call.change(key, false, &mark).await?;
        // The version that was asked for is the one before the note.
        if let Some(version) = &mut options.precondition_resource_version {
            *version = marked.object.resource_version().to_owned();
        }
    }
    delete_key(call, key, &options, Admission::Done)
        .await
        .map(|_| ())
}

/// Says on a pod that it goes because it was asked to.
struct Mark<'a> {
    call: &'a Call<'a>,
    options: &'a DeleteOptions,
}

#[async_trait]
impl Edit for Mark<'_> {
    async fn edit(&self, current: &Current) -> Result<Change, Status> {
        check_preconditions(self.call, self.options, current)?;
        let mut pod = current.object.clone();
        let mut condition = conditions::of_pod("DisruptionTarget", self.call.now);
        condition.insert("reason".into(), "EvictionByEvictionAPI".into());
        condition.insert("message".into(), "Eviction API: evicting".into());
        conditions::put(status_of(&mut pod)?, condition);
        Ok(Change::Put(pod, Claim::default()))
    }

    fn is_conditional(&self) -> bool {
        self.options.precondition_resource_version.is_some()
    }
}
