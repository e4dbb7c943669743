//! The DefaultTolerationSeconds plugin: pods tolerate a not-ready or unreachable node for 300 seconds unless they say
//! otherwise.

use async_trait::async_trait;
use rhumb_api::{JsonObject, fields};
use rhumb_meta::Status;
use serde_json::Value;

use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin, Operation};

const TOLERATION_SECONDS: i64 = 300;
const TAINTS: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];

#[derive(Debug)]
pub(super) struct DefaultTolerationSecondsPlugin;

#[async_trait]
impl AdmissionPlugin for DefaultTolerationSecondsPlugin {
    fn handles(&self, step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        step == AdmissionPass::Mutation && attributes.is_resource("", "pods")
    }

    async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&mut JsonObject>,
    ) -> Result<(), Status> {
        let is_write = matches!(attributes.operation, Operation::Create | Operation::Update);
        if let Some(pod) = object.filter(|_| is_write && attributes.is_resource("", "pods")) {
            tolerate(pod);
        }
        Ok(())
    }
}

fn tolerate(pod: &mut JsonObject) {
    let Some(spec) = fields::object_or_insert(pod, "spec") else {
        return;
    };
    let list = spec.entry("tolerations").or_insert(Value::Null);
    if !list.is_array() {
        *list = Value::Array(Vec::with_capacity(TAINTS.len()));
    }
    let Value::Array(tolerations) = list else {
        return;
    };
    for taint in TAINTS {
        if !tolerations
            .iter()
            .any(|toleration| covers(toleration, taint))
        {
            tolerations.push(toleration(taint));
        }
    }
}

fn toleration(taint: &str) -> Value {
    let mut toleration = JsonObject::new();
    toleration.insert("effect".to_owned(), "NoExecute".into());
    toleration.insert("key".to_owned(), taint.into());
    toleration.insert("operator".to_owned(), "Exists".into());
    toleration.insert("tolerationSeconds".to_owned(), TOLERATION_SECONDS.into());
    Value::Object(toleration)
}

fn covers(toleration: &Value, taint: &str) -> bool {
    let text = |field: &str| toleration[field].as_str().unwrap_or_default();
    let key = text("key");
    (key == taint || key.is_empty()) && matches!(text("effect"), "NoExecute" | "")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use rhumb_registry::testing::object;

    #[test]
    fn only_missing_tolerations_are_added() {
        let table = [
            (json!([]), 2),
            (json!(null), 2),
            (json!([{"operator": "Exists"}]), 1),
            (json!([{"operator": "Exists", "effect": "NoSchedule"}]), 3),
            (json!([{"key": TAINTS[0], "effect": "NoExecute"}]), 2),
            (json!([{"key": TAINTS[0]}, {"key": TAINTS[1]}]), 2),
            (json!([{"key": "other"}]), 3),
        ];
        for (tolerations, want) in table {
            let mut pod = object(json!({"spec": {"tolerations": tolerations}}));
            tolerate(&mut pod);
            let got = fields::items(&pod, "spec.tolerations").len();
            assert_eq!(got, want, "{tolerations}");
            tolerate(&mut pod);
            assert_eq!(fields::items(&pod, "spec.tolerations").len(), want);
        }
    }

    #[test]
    fn default_tolerations_equal_upstreams() {
        let mut pod = object(json!({"spec": {}}));
        tolerate(&mut pod);
        let want = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
        assert_eq!(
            pod["spec"]["tolerations"],
            json!([want(TAINTS[0]), want(TAINTS[1])])
        );
    }
}
