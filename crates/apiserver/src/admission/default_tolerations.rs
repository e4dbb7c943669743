//! Pods stay for five minutes on a node that is not ready, unless they say otherwise.

use async_trait::async_trait;
use rhumb_api::{Object, fields};
use rhumb_meta::Status;
use serde_json::{Value, json};

use super::{Attributes, Operation, Plugin};

const SECONDS: i64 = 300;
const TAINTS: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];

#[derive(Debug)]
pub(super) struct DefaultTolerations;

#[async_trait]
impl Plugin for DefaultTolerations {
    async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&mut Object>,
    ) -> Result<(), Status> {
        let is_write = matches!(attributes.operation, Operation::Create | Operation::Update);
        if let Some(pod) = object.filter(|_| is_write && attributes.is_about("", "pods")) {
            tolerate(pod);
        }
        Ok(())
    }
}

fn tolerate(pod: &mut Object) {
    let mut tolerations = fields::items(pod, "spec.tolerations").to_vec();
    for taint in TAINTS {
        if !tolerations
            .iter()
            .any(|toleration| covers(toleration, taint))
        {
            tolerations.push(json!({
                "key": taint,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": SECONDS,
            }));
        }
    }
    fields::set(pod, "spec.tolerations", tolerations);
}

fn covers(toleration: &Value, taint: &str) -> bool {
    let text = |field: &str| toleration[field].as_str().unwrap_or_default();
    let key = text("key");
    (key == taint || key.is_empty()) && matches!(text("effect"), "NoExecute" | "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::object;

    #[test]
    fn only_what_is_missing_is_added() {
        let table = [
            (json!([]), 2),
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
    fn what_is_added_is_what_upstream_adds() {
        let mut pod = object(json!({"spec": {}}));
        tolerate(&mut pod);
        let want = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
        assert_eq!(
            pod["spec"]["tolerations"],
            json!([want(TAINTS[0]), want(TAINTS[1])])
        );
    }
}
