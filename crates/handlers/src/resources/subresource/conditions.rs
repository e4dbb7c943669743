//! Sets conditions in the status of stored objects.

use rhumb_api::{JsonObject, fields};
use rhumb_meta::Status;
use serde_json::Value;

/// The status of an object, created if absent. Fails if another server stored something else than an object there.
pub(super) fn status_mut(object: &mut JsonObject) -> Result<&mut JsonObject, Status> {
    fields::object_or_insert(object, "status")
        .ok_or_else(|| Status::internal_error("the status of the stored object is not an object"))
}

/// Adds a condition, or replaces the one of its type. Keeps lastTransitionTime if the status does not change.
pub(super) fn set_condition(status: &mut JsonObject, mut condition: JsonObject) {
    let mut conditions = match status.remove("conditions") {
        Some(Value::Array(conditions)) => conditions,
        _ => Vec::new(),
    };
    let of_type = conditions
        .iter()
        .position(|old| old.get("type") == condition.get("type"));
    match of_type.and_then(|position| conditions.get_mut(position)) {
        Some(old) => {
            if old.get("status") == condition.get("status")
                && let Some(since) = old.get("lastTransitionTime")
            {
                condition.insert("lastTransitionTime".into(), since.clone());
            }
            *old = Value::Object(condition);
        }
        None => conditions.push(Value::Object(condition)),
    }
    status.insert("conditions".into(), Value::Array(conditions));
}

/// A pod condition of this type that is true as of now.
pub(super) fn true_pod_condition(kind: &str, now: rhumb_meta::Timestamp) -> JsonObject {
    let mut condition = JsonObject::new();
    condition.insert("type".into(), kind.into());
    condition.insert("status".into(), "True".into());
    condition.insert("lastProbeTime".into(), Value::Null);
    condition.insert(
        "lastTransitionTime".into(),
        now.rfc3339().to_string().into(),
    );
    condition
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use rhumb_registry::testing::object;

    #[test]
    fn last_transition_time_changes_only_with_the_status() {
        let check = |conditions: Value, expect: Value| {
            let mut status = object(json!({"conditions": conditions}));
            let new = json!({"type": "A", "status": "True", "lastTransitionTime": "now"});
            set_condition(&mut status, object(new));
            assert_eq!(status["conditions"], expect);
        };
        let now = json!({"type": "A", "status": "True", "lastTransitionTime": "now"});
        let other = json!({"type": "B", "status": "True"});
        check(json!(null), json!([now]));
        check(json!(5), json!([now]));
        check(json!([5, other]), json!([5, other, now]));
        check(
            json!([{"type": "A", "status": "False", "lastTransitionTime": "then"}, other]),
            json!([now, other]),
        );
        check(
            json!([{"type": "A", "status": "True", "lastTransitionTime": "then", "reason": "old"}]),
            json!([{"type": "A", "status": "True", "lastTransitionTime": "then"}]),
        );
    }
}
