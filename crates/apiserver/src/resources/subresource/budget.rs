//! What a disruption budget says about one pod that is to go.

use async_trait::async_trait;
use rhumb_api::Object;
use rhumb_meta::status::{CauseType, StatusCause};
use rhumb_meta::{LabelSelector, ObjectKey, Status};
use serde_json::{Value, json};

use super::conditions::{self, status_of};
use crate::objects::{Metadata, MetadataMut};
use crate::resources::write::{Change, Current, Edit};
use crate::resources::{Call, Claim};

/// Pods that a budget waits for; more mean that whoever keeps the budget is not running.
const DISRUPTED_PODS_MAX: usize = 2000;

/// How long a client waits for whoever keeps the budget to look at it.
const PROCESSING_RETRY_SECONDS: i32 = 10;

const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

/// Why a pod may go.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Leave {
    /// No budget covers it, or its budget paid for it.
    Given,
    /// It is not ready, and nothing was taken from the budget of this name: that holds for the pod as it is.
    AsItIs(String),
}

/// Asks the budget that covers a pod, and takes from it what the pod's going costs.
pub(super) async fn ask(call: &Call<'_>, pod: &Object, dry_run: bool) -> Result<Leave, Status> {
    let Some(on_budgets) = call.on("policy", "poddisruptionbudgets") else {
        return Ok(Leave::Given);
    };
    let snapshot = on_budgets.storage()?.cache.snapshot();
    let matching: Vec<(&ObjectKey, Value)> = snapshot
        .range(call.namespace(), None)
        .filter_map(|entry| {
            let budget = serde_json::from_slice(entry.json_slice()).ok()?;
            selects(&budget, pod).then_some((entry.key(), budget))
        })
        .collect();
    let (key, budget) = match matching.as_slice() {
        [] => return Ok(Leave::Given),
        [found] => found,
        _ => {
            return Err(Status::internal_error(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
    };
    if !is_ready(pod) && spares_the_unready(budget) {
        return Ok(Leave::AsItIs(key.name().to_owned()));
    }
    let edit = Disrupt {
        pod_name: pod.name(),
        now: call.now.rfc3339().to_string(),
    };
    match on_budgets.change(key, dry_run, &edit).await {
        // Whoever removed the budget lets its pods go.
        Err(status) if status.is_not_found() => Ok(Leave::Given),
        Err(status) if status.is_conflict() => Err(still_processed(key.name())),
        outcome => outcome.map(|_| Leave::Given),
    }
}

fn selects(budget: &Value, pod: &Object) -> bool {
    let Ok(selector) = serde_json::from_value::<LabelSelector>(budget["spec"]["selector"].clone())
    else {
        return false;
    };
    let Ok(selector) = LabelSelector::to_selector(Some(&selector)) else {
        return false;
    };
    selector.matches(pod.labels().as_slice())
}

fn is_ready(pod: &Object) -> bool {
    pod.get("status")
        .and_then(|status| status.get("conditions"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// A pod that is not ready counts for nothing, so its going takes nothing away.
fn spares_the_unready(budget: &Value) -> bool {
    let count = |field: &str| budget["status"][field].as_i64().unwrap_or(0);
    let (healthy, desired) = (count("currentHealthy"), count("desiredHealthy"));
    budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
        || (healthy >= desired && desired > 0)
}

/// Takes one disruption from a budget.
struct Disrupt<'a> {
    pod_name: &'a str,
    now: String,
}

#[async_trait]
impl Edit for Disrupt<'_> {
    async fn edit(&self, current: &Current) -> Result<Change, Status> {
        let mut budget = current.object.clone();
        let name = budget.name().to_owned();
        let generation = budget.generation();
        let status = status_of(&mut budget)?;
        if count(status, "observedGeneration") < generation {
            return Err(still_processed(&name));
        }
        let waiting = status.get("disruptedPods").and_then(Value::as_object);
        if waiting.map_or(0, serde_json::Map::len) > DISRUPTED_PODS_MAX {
            return Err(Status::forbidden(
                &rhumb_meta::GroupResource::new("policy", "poddisruptionbudget"),
                &name,
                "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
            ));
        }
        let allowed = count(status, "disruptionsAllowed");
        if allowed <= 0 {
            return Err(refused(used_up(&name, status), 0));
        }
        status.insert("disruptionsAllowed".into(), (allowed - 1).into());
        if allowed == 1 {
            self.no_more(status);
        }
        let mut disrupted = match status.remove("disruptedPods") {
            Some(Value::Object(disrupted)) => disrupted,
            _ => Object::new(),
        };
        disrupted.insert(self.pod_name.to_owned(), self.now.clone().into());
        status.insert("disruptedPods".into(), Value::Object(disrupted));
        budget.clear_meta("managedFields");
        Ok(Change::Put(budget, Claim::default()))
    }

    fn is_conditional(&self) -> bool {
        false
    }
}

impl Disrupt<'_> {
    /// Notes that the budget is used up.
    fn no_more(&self, status: &mut Object) {
        let condition = json!({
            "type": DISRUPTION_ALLOWED,
            "status": "False",
            "reason": "InsufficientPods",
            "message": "",
            "observedGeneration": status.get("observedGeneration"),
            "lastTransitionTime": self.now,
        });
        if let Value::Object(condition) = condition {
            conditions::put(status, condition);
        }
    }
}

fn count(status: &Object, field: &str) -> i64 {
    status.get(field).and_then(Value::as_i64).unwrap_or(0)
}

/// Why nothing more may be disturbed now.
fn used_up(budget: &str, status: &Object) -> String {
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

/// The budget, or the pod that it covers, is being changed by others: the same request may do a little later.
pub(super) fn still_processed(budget: &str) -> Status {
    refused(
        format!("The disruption budget {budget} is still being processed by the server."),
        PROCESSING_RETRY_SECONDS,
    )
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
                used_up("b", status.as_object().unwrap()),
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
