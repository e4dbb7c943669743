//! Checks the PodDisruptionBudget of a pod for an eviction and decrements it (upstream: `checkAndDecrement`).

use rhumb_api::JsonObject;
use rhumb_cache::ResourceCache;
use rhumb_meta::status::{CauseType, StatusCause};
use rhumb_meta::{ObjectKey, Status};
use serde_json::{Value, json};

use super::conditions::{self, status_mut};
use crate::resources::ResourceRequest;
use rhumb_registry::objects::{ObjectMetadata, ObjectMetadataMut};
use rhumb_registry::write::{ObjectUpdate, ProposedWrite, StoredObject};

/// The maximum of unconfirmed disruptions. More indicate that the disruption controller is not running.
const DISRUPTED_PODS_MAX: usize = 2000;

/// Retry-After for clients while the disruption controller has yet to observe the budget.
const PROCESSING_RETRY_SECONDS: i32 = 10;

const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

/// On which condition a pod may be evicted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EvictionGrant {
    /// No budget covers the pod, or its budget was decremented.
    Granted,
    /// The pod is not ready, so the budget of this name was not decremented: valid only while the pod is unchanged.
    IfPodUnchanged(String),
}

/// Checks the budget that covers a pod, and decrements its `disruptionsAllowed`.
pub(super) async fn check_and_decrement(
    request: &ResourceRequest<'_>,
    pod: &JsonObject,
    dry_run: bool,
) -> Result<EvictionGrant, Status> {
    let Some(on_budgets) = request.for_resource("policy", "poddisruptionbudgets") else {
        return Ok(EvictionGrant::Granted);
    };
    let cache = &on_budgets.storage()?.cache;
    let index = &request.state.disruption_budgets;
    let namespace = request.namespace().unwrap_or_default();
    let matching = index.budgets_of(cache, namespace, &pod.labels())?;
    let key = match matching.as_slice() {
        [] => return Ok(EvictionGrant::Granted),
        [found] => found,
        _ => {
            return Err(Status::internal_error(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
    };
    if !is_ready(pod) && allows_unready_eviction(&stored_budget(cache, key)) {
        return Ok(EvictionGrant::IfPodUnchanged(key.name().to_owned()));
    }
    let update = DisruptionBudgetDecrement {
        budget: key.name(),
        pod_name: pod.name(),
        now: request.now.rfc3339().to_string(),
    };
    match on_budgets.update_object(key, dry_run, &update).await {
        Err(status) if status.is_conflict() => Err(budget_still_processed(key.name())),
        outcome => outcome.map(|_| EvictionGrant::Granted),
    }
}

/// The budget in the cache; null if it was deleted meanwhile.
fn stored_budget(cache: &ResourceCache, key: &ObjectKey) -> Value {
    let entry = cache.get(key).ok().flatten();
    let budget = entry.and_then(|entry| serde_json::from_slice(entry.json_slice()).ok());
    budget.unwrap_or_default()
}

fn is_ready(pod: &JsonObject) -> bool {
    pod.get("status")
        .and_then(|status| status.get("conditions"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Whether an unready pod may be evicted without decrementing the budget (`unhealthyPodEvictionPolicy`).
fn allows_unready_eviction(budget: &Value) -> bool {
    let count = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    let (healthy, desired) = (count("currentHealthy"), count("desiredHealthy"));
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        || (healthy >= desired && desired > 0)
}

/// Decrements `disruptionsAllowed` of a budget and records the disrupted pod.
struct DisruptionBudgetDecrement<'a> {
    budget: &'a str,
    pod_name: &'a str,
    now: String,
}

impl ObjectUpdate for DisruptionBudgetDecrement<'_> {
    fn propose(&self, current: Option<&StoredObject>) -> Result<ProposedWrite, Status> {
        let name = self.budget;
        let Some(current) = current else {
            let resource = rhumb_meta::GroupResource::new("policy", "poddisruptionbudgets");
            return Err(Status::not_found(&resource, name));
        };
        let mut budget = current.object.clone();
        let generation = budget.generation();
        let status = status_mut(&mut budget)?;
        if count(status, "observedGeneration") < generation {
            return Err(budget_still_processed(name));
        }
        let unconfirmed = status.get("disruptedPods").and_then(Value::as_object);
        if unconfirmed.map_or(0, serde_json::Map::len) > DISRUPTED_PODS_MAX {
            return Err(Status::forbidden(
                &rhumb_meta::GroupResource::new("policy", "poddisruptionbudget"),
                name,
                "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            ));
        }
        let allowed = count(status, "disruptionsAllowed");
        if allowed <= 0 {
            return Err(budget_rejection(exhausted_message(name, status), 0));
        }
        status.insert("disruptionsAllowed".into(), (allowed - 1).into());
        if allowed == 1 {
            self.set_exhausted_condition(status);
        }
        let mut disrupted = match status.remove("disruptedPods") {
            Some(Value::Object(disrupted)) => disrupted,
            _ => JsonObject::new(),
        };
        disrupted.insert(self.pod_name.to_owned(), self.now.clone().into());
        status.insert("disruptedPods".into(), Value::Object(disrupted));
        budget.clear_meta("managedFields");
        Ok(ProposedWrite::Put(budget))
    }
}

impl DisruptionBudgetDecrement<'_> {
    /// Sets the DisruptionAllowed condition to false.
    fn set_exhausted_condition(&self, status: &mut JsonObject) {
        let condition = json!({
            "type": DISRUPTION_ALLOWED,
            "status": "False",
            "reason": "InsufficientPods",
            "message": "",
            "observedGeneration": status.get("observedGeneration"),
            "lastTransitionTime": self.now,
        });
        if let Value::Object(condition) = condition {
            conditions::set_condition(status, condition);
        }
    }
}

fn count(status: &JsonObject, field: &str) -> i64 {
    status.get(field).and_then(Value::as_i64).unwrap_or(0)
}

/// Upstream's message for a budget that allows no disruption.
fn exhausted_message(budget: &str, status: &JsonObject) -> String {
    let condition = status
        .get("conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == DISRUPTION_ALLOWED)
        .filter(|condition| condition["status"] == "False")
        .map(|condition| {
            let text = |field: &str| condition[field].as_str().unwrap_or_default();
            (text("reason"), text("message"))
        })
        .filter(|(_, message)| !message.is_empty());
    let (healthy, desired) = (
        count(status, "currentHealthy"),
        count(status, "desiredHealthy"),
    );
    let denied = format!("The disruption budget {budget} does not allow evicting pods currently");
    match condition {
        Some(("SyncFailed", message)) => format!("{denied} because it failed sync: {message}"),
        _ if healthy <= desired => format!(
            "The disruption budget {budget} needs {desired} healthy pods and has {healthy} currently"
        ),
        Some((reason, message)) => format!("{denied} ({reason}): {message}"),
        None => denied,
    }
}

/// The error if the budget or the pod is changing concurrently; clients retry later.
pub(super) fn budget_still_processed(budget: &str) -> Status {
    budget_rejection(
        format!("The disruption budget {budget} is still being processed by the server."),
        PROCESSING_RETRY_SECONDS,
    )
}

/// The TooManyRequests error with a DisruptionBudget cause.
fn budget_rejection(cause: String, retry_seconds: i32) -> Status {
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
    fn an_exhausted_budget_names_the_cause() {
        let check = |healthy: i64, reason: &str, message: &str, expect: &str| {
            let condition = json!({"type": DISRUPTION_ALLOWED, "status": "False", "reason": reason, "message": message});
            let status =
                json!({"currentHealthy": healthy, "desiredHealthy": 2, "conditions": [condition]});
            assert_eq!(
                exhausted_message("b", status.as_object().unwrap()),
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
