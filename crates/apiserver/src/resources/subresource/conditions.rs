//! The status of an object that is stored, and the conditions in it.

use rhumb_api::{Object, fields};
use rhumb_meta::Status;
use serde_json::Value;

/// The status, made if there is none. What others stored may hold anything there.
pub(super) fn status_of(object: &mut Object) -> Result<&mut Object, Status> {
    fields::object_at(object, "status")
        .ok_or_else(|| Status::internal_error("the status of the stored object is not an object"))
}

/// Puts a condition in the place of the one of its type. One whose status stays has been so since then.
pub(super) fn put(status: &mut Object, mut condition: Object) {
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

/// The condition of a pod that holds from now on.
pub(super) fn of_pod(kind: &str, now: rhumb_meta::Timestamp) -> Object {
    let mut condition = Object::new();
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
    use crate::testing::object;

    #[test]
    fn a_condition_has_been_so_since_its_status_changed() {
        let check = |conditions: Value, expect: Value| {
            let mut status = object(json!({"conditions": conditions}));
            let new = json!({"type": "A", "status": "True", "lastTransitionTime": "now"});
            put(&mut status, object(new));
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
