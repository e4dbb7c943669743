//! The `eviction` subresource of pods: deletes a pod if its PodDisruptionBudget allows (upstream:
//! `pkg/registry/core/pod/storage/eviction.go`).

use rhumb_api::JsonObject;
use rhumb_meta::{ObjectKey, Status};
use serde_json::Value;

use super::conditions::{self, status_mut};
use super::disruption_budget::{self, EvictionGrant};
use crate::http::Reply;
use crate::request::{WriteOptions, parse_delete_options};
use crate::resources::ResourceRequest;
use crate::resources::codec::ExpectedType;
use crate::resources::delete::{DeleteRequest, DeletionAdmission, check_preconditions};
use rhumb_registry::DeleteOptions;
use rhumb_registry::RequestContext;
use rhumb_registry::admission::Operation;
use rhumb_registry::ensure_request_namespace;
use rhumb_registry::objects::ObjectMetadata;
use rhumb_registry::write::{ObjectUpdate, ProposedWrite, StoredObject, WrittenObject};

const API_VERSION: &str = "policy/v1";
const KIND: &str = "Eviction";

/// How often an eviction is tried again because the pod changed after the checks. This is not a loop of the write path,
/// which repeats the write of one object: between the attempts the budget, another object, may have been decremented.
const ATTEMPTS_MAX: usize = 32;

pub(super) async fn evict(request: &ResourceRequest<'_>) -> Result<Reply, Status> {
    let write = WriteOptions::parse(request.query, "CreateOptions")?;
    let schema = request
        .registry
        .schema_type("io.k8s.api.policy.v1.Eviction")?;
    let expected = ExpectedType {
        api_version: API_VERSION,
        kind: KIND,
        schema: &schema,
    };
    let mut eviction = request.decode(expected, write.field_validation)?;
    if !eviction.name().is_empty() && eviction.name() != request.name() {
        return Err(Status::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    ensure_request_namespace(request, &mut eviction)?;
    let attributes = request.admission_attributes(Operation::Create, None, write.dry_run);
    let chain = &request.registry.admission;
    chain.admit(&attributes, Some(&mut eviction)).await?;
    let body = eviction
        .get("deleteOptions")
        .map(Value::to_string)
        .unwrap_or_default();
    let mut options = parse_delete_options(request.query, body.as_bytes())?;
    options.dry_run |= write.dry_run;
    let key = request.key()?;
    let mut conflict = request.object_modified(key.name());
    for _ in 0..ATTEMPTS_MAX {
        match try_evict(request, &key, &options).await? {
            EvictionOutcome::Evicted => return super::created_status(request),
            EvictionOutcome::PodChanged(status) => conflict = status,
        }
    }
    Err(conflict)
}

/// The outcome of one attempt to evict a pod.
enum EvictionOutcome {
    Evicted,
    /// The pod changed after the checks, which have to run again.
    PodChanged(Status),
}

/// One attempt: checks the pod and its budget, then deletes the pod.
async fn try_evict(
    request: &ResourceRequest<'_>,
    key: &ObjectKey,
    requested: &DeleteOptions,
) -> Result<EvictionOutcome, Status> {
    let context: &RequestContext<'_> = request;
    let pod = context.current_from_cache(key).await?;
    if pod.object.is_deleting() || is_terminal(&pod.object) {
        // Terminal and deleting pods do not count for a budget, and never will again.
        mark_and_delete(context, key, requested.clone()).await?;
        return Ok(EvictionOutcome::Evicted);
    }
    // If the client specified a resourceVersion, a conflict is final.
    let may_retry = requested.precondition_resource_version.is_none();
    let if_unchanged = || {
        let mut options = requested.clone();
        let version = &mut options.precondition_resource_version;
        version.get_or_insert_with(|| pod.revision.to_string());
        options
    };
    if phase(&pod.object) == Some("Pending") {
        // A pending pod needs no budget. If it starts to run before its deletion, the budget has to be checked.
        return match mark_and_delete(context, key, if_unchanged()).await {
            Err(status) if status.is_conflict() && may_retry => {
                Ok(EvictionOutcome::PodChanged(status))
            }
            outcome => outcome.map(|()| EvictionOutcome::Evicted),
        };
    }
    match disruption_budget::check_and_decrement(request, &pod.object, requested.dry_run).await? {
        EvictionGrant::Granted => {
            let mut options = requested.clone();
            let uid = &mut options.precondition_uid;
            uid.get_or_insert_with(|| pod.object.uid().to_owned());
            mark_and_delete(context, key, options).await?;
        }
        EvictionGrant::IfPodUnchanged(budget) => {
            match mark_and_delete(context, key, if_unchanged()).await {
                Err(status) if status.is_conflict() && may_retry => {
                    return Err(disruption_budget::budget_still_processed(&budget));
                }
                outcome => outcome?,
            }
        }
    }
    Ok(EvictionOutcome::Evicted)
}

fn is_terminal(pod: &JsonObject) -> bool {
    matches!(phase(pod), Some("Succeeded" | "Failed"))
}

fn phase(pod: &JsonObject) -> Option<&str> {
    pod.get("status")?.get("phase")?.as_str()
}

/// Sets the DisruptionTarget condition on the pod, then deletes it.
async fn mark_and_delete(
    context: &RequestContext<'_>,
    key: &ObjectKey,
    mut options: DeleteOptions,
) -> Result<(), Status> {
    if !options.dry_run {
        let update = DisruptionTargetUpdate {
            context,
            options: &options,
        };
        let marked = context.update_object(key, false, &update).await?;
        // The precondition was about the version before the condition was set.
        if let (Some(version), WrittenObject::Encoded { revision, .. }) =
            (&mut options.precondition_resource_version, marked.object)
        {
            *version = revision.unwrap_or_default().to_string();
        }
    }
    let deletion = DeleteRequest {
        context,
        options: &options,
        admission: DeletionAdmission::AlreadyAdmitted,
    };
    deletion.run(key, None).await.map(|_| ())
}

/// Sets the DisruptionTarget condition on a pod.
struct DisruptionTargetUpdate<'a> {
    context: &'a RequestContext<'a>,
    options: &'a DeleteOptions,
}

impl ObjectUpdate for DisruptionTargetUpdate<'_> {
    fn propose(&self, current: Option<&StoredObject>) -> Result<ProposedWrite, Status> {
        let current = current.ok_or_else(|| self.context.not_found())?;
        check_preconditions(self.context, self.options, current)?;
        let mut pod = current.object.clone();
        let mut condition = conditions::true_pod_condition("DisruptionTarget", self.context.now);
        condition.insert("reason".into(), "EvictionByEvictionAPI".into());
        condition.insert("message".into(), "Eviction API: evicting".into());
        conditions::set_condition(status_mut(&mut pod)?, condition);
        Ok(ProposedWrite::Put(pod))
    }

    fn is_conditional(&self) -> bool {
        self.options.precondition_resource_version.is_some()
    }
}
