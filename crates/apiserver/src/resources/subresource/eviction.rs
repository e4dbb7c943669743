//! A pod is asked to leave, as far as its disruption budgets allow.

use async_trait::async_trait;
use rhumb_api::Object;
use rhumb_meta::status::{CauseType, StatusCause};
use rhumb_meta::{LabelSelector, ObjectKey, Status};
use serde_json::{Value, json};

use crate::admission::Operation;
use crate::http::Reply;
use crate::objects::{Metadata, MetadataMut};
use crate::request::{DeleteOptions, WriteOptions};
use crate::resources::codec::Expected;
use crate::resources::delete::delete_admitted;
use crate::resources::write::{Change, Current, Edit};
use crate::resources::{Call, Claim};

const API_VERSION: &str = "policy/v1";
const KIND: &str = "Eviction";

/// Pods that a budget waits for; more mean that whoever keeps the budget is not running.
const DISRUPTED_PODS_MAX: usize = 2000;

/// How long a client waits for whoever keeps the budget to look at it.
const PROCESSING_RETRY_SECONDS: i32 = 10;

const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

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
    let pod = call.current(&key).await?;
    if pod.object.is_deleting() || is_over(&pod.object) {
        // Nothing that happens meanwhile makes it count again.
    } else if ignores_budgets(&pod.object) {
        // Should it come to run meanwhile, its budget must be asked after all.
        options
            .precondition_resource_version
            .get_or_insert_with(|| pod.revision.to_string());
    } else {
        ask_budgets(call, &pod.object, options.dry_run).await?;
        options
            .precondition_uid
            .get_or_insert_with(|| pod.object.uid().to_owned());
    }
    delete_admitted(call, &key, &options).await?;
    super::created(call)
}

fn is_over(pod: &Object) -> bool {
    matches!(phase(pod), Some("Succeeded" | "Failed"))
}

fn phase(pod: &Object) -> Option<&str> {
    pod.get("status")?.get("phase")?.as_str()
}

/// A pod that does not run, or is going already, disturbs nobody.
fn ignores_budgets(pod: &Object) -> bool {
    pod.is_deleting() || is_over(pod) || phase(pod) == Some("Pending")
}

async fn ask_budgets(call: &Call<'_>, pod: &Object, dry_run: bool) -> Result<(), Status> {
    let Some(budgets) = call.api.registry.find("policy", "poddisruptionbudgets") else {
        return Ok(());
    };
    let (Some(storage), Some(version)) = (&budgets.storage, budgets.versions.first()) else {
        return Ok(());
    };
    let snapshot = storage.cache.snapshot();
    let matching: Vec<ObjectKey> = snapshot
        .range(call.namespace(), None)
        .filter(|entry| selects(entry.json_slice(), pod))
        .map(|entry| entry.key().clone())
        .collect();
    let key = match matching.as_slice() {
        [] => return Ok(()),
        [key] => key,
        _ => {
            return Err(Status::internal_error(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
    };
    let on_budgets = Call {
        api: call.api,
        resource: budgets,
        version,
        subresource: None,
        target: call.target,
        verb: call.verb,
        query: call.query,
        headers: call.headers,
        body: bytes::Bytes::new(),
        user: call.user,
        now: call.now,
        warnings: std::sync::Mutex::default(),
    };
    let edit = Disrupt {
        pod_name: pod.name(),
        pod_is_ready: is_ready(pod),
        now: call.now.rfc3339().to_string(),
    };
    on_budgets.change(key, dry_run, &edit).await.map(|_| ())
}

fn selects(budget: &[u8], pod: &Object) -> bool {
    let Ok(budget) = serde_json::from_slice::<Value>(budget) else {
        return false;
    };
    let Ok(selector) = serde_json::from_value::<LabelSelector>(budget["spec"]["selector"].clone())
    else {
        return false;
    };
    let Ok(selector) = LabelSelector::to_selector(Some(&selector)) else {
        return false;
    };
    let labels: Vec<(String, String)> = pod
        .metadata()
        .and_then(|metadata| metadata.get("labels"))
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect();
    selector.matches(labels.as_slice())
}

fn is_ready(pod: &Object) -> bool {
    pod.get("status")
        .and_then(|status| status.get("conditions"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Takes one disruption from a budget.
struct Disrupt<'a> {
    pod_name: &'a str,
    pod_is_ready: bool,
    now: String,
}

#[async_trait]
impl Edit for Disrupt<'_> {
    async fn edit(&self, current: &Current) -> Result<Change, Status> {
        let budget = &current.object;
        let spec = budget.get("spec").cloned().unwrap_or_default();
        let mut status = budget.get("status").cloned().unwrap_or_else(|| json!({}));
        let allowed = status["disruptionsAllowed"].as_i64().unwrap_or(0);
        let healthy = status["currentHealthy"].as_i64().unwrap_or(0);
        let desired = status["desiredHealthy"].as_i64().unwrap_or(0);
        let always = spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
        // A pod that is not ready counts for nothing, so its going takes nothing away.
        if !self.pod_is_ready && (always || (healthy >= desired && desired > 0)) {
            return Ok(Change::Keep(budget.clone()));
        }
        let observed = status["observedGeneration"].as_i64().unwrap_or(0);
        if observed < budget.generation() {
            return Err(refused(
                format!(
                    "The disruption budget {} is still being processed by the server.",
                    budget.name()
                ),
                PROCESSING_RETRY_SECONDS,
            ));
        }
        let waiting = status["disruptedPods"]
            .as_object()
            .map_or(0, serde_json::Map::len);
        if waiting > DISRUPTED_PODS_MAX {
            return Err(Status::forbidden(
                &rhumb_meta::GroupResource::new("policy", "poddisruptionbudget"),
                budget.name(),
                "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            ));
        }
        if allowed <= 0 {
            return Err(refused(used_up(budget.name(), &status), 0));
        }
        status["disruptionsAllowed"] = (allowed - 1).into();
        if allowed == 1 {
            self.no_more(&mut status);
        }
        if !status["disruptedPods"].is_object() {
            status["disruptedPods"] = json!({});
        }
        status["disruptedPods"][self.pod_name] = self.now.clone().into();
        let mut budget = budget.clone();
        budget.insert("status".into(), status);
        budget.clear_meta("managedFields");
        Ok(Change::Put(budget, Claim::default()))
    }

    fn is_conditional(&self) -> bool {
        false
    }
}

impl Disrupt<'_> {
    /// Notes that the budget is used up.
    fn no_more(&self, status: &mut Value) {
        let mut conditions = match status["conditions"].take() {
            Value::Array(conditions) => conditions,
            _ => Vec::new(),
        };
        let mut condition = json!({
            "type": DISRUPTION_ALLOWED,
            "status": "False",
            "reason": "InsufficientPods",
            "message": "",
            "observedGeneration": status["observedGeneration"],
            "lastTransitionTime": self.now,
        });
        match conditions
            .iter_mut()
            .find(|condition| condition["type"] == DISRUPTION_ALLOWED)
        {
            Some(old) => {
                if old["status"] == condition["status"] {
                    condition["lastTransitionTime"] = old["lastTransitionTime"].take();
                }
                *old = condition;
            }
            None => conditions.push(condition),
        }
        status["conditions"] = Value::Array(conditions);
    }
}

/// Why nothing more may be disturbed now.
fn used_up(budget: &str, status: &Value) -> String {
    let condition = status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == DISRUPTION_ALLOWED)
        .filter(|condition| condition["status"] == "False")
        .map(|condition| {
            let text = |field: &str| condition[field].as_str().unwrap_or_default();
            (text("reason"), text("message"))
        })
        .filter(|(_, message)| !message.is_empty());
    let healthy = status["currentHealthy"].as_i64().unwrap_or(0);
    let desired = status["desiredHealthy"].as_i64().unwrap_or(0);
    let refuses = format!("The disruption budget {budget} does not allow evicting pods currently");
    match condition {
        Some(("SyncFailed", message)) => format!("{refuses} because it failed sync: {message}"),
        _ if healthy <= desired => format!(
            "The disruption budget {budget} needs {desired} healthy pods and has {healthy} currently"
        ),
        Some((reason, message)) => format!("{refuses} ({reason}): {message}"),
        None => refuses,
    }
}

fn refused(cause: String, retry_seconds: i32) -> Status {
    let mut status = Status::too_many_requests(
        "Cannot evict pod as it would violate the pod's disruption budget.",
        retry_seconds,
    );
    let details = status.details.get_or_insert_default();
    details.causes.push(StatusCause {
        reason: CauseType::from("DisruptionBudget"),
        message: cause,
        field: String::new(),
    });
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_says_why_it_is_used_up() {
        let check = |healthy: i64, reason: &str, message: &str, expect: &str| {
            let condition = json!({"type": DISRUPTION_ALLOWED, "status": "False", "reason": reason, "message": message});
            let status =
                json!({"currentHealthy": healthy, "desiredHealthy": 2, "conditions": [condition]});
            assert_eq!(
                used_up("b", &status),
                format!("The disruption budget b {expect}")
            );
        };
        check(
            1,
            "InsufficientPods",
            "",
            "needs 2 healthy pods and has 1 currently",
        );
        check(
            1,
            "SyncFailed",
            "no scale",
            "does not allow evicting pods currently because it failed sync: no scale",
        );
        check(
            3,
            "Other",
            "why",
            "does not allow evicting pods currently (Other): why",
        );
        check(3, "Other", "", "does not allow evicting pods currently");
    }
}
