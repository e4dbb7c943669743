//! The PodResizeValidator plugin: rejects a resize of a running pod that its node cannot fulfill.

use async_trait::async_trait;
use rhumb_api::pods::partial_pod::{PartialPod, PodResourcesOptions};
use rhumb_api::{JsonObject, fields};
use rhumb_meta::status::{CauseType, StatusCause};
use rhumb_meta::{Quantity, Status};
use serde_json::Value;

use super::object_lookup;
use rhumb_registry::admission::{AdmissionAttributes, AdmissionPass, AdmissionPlugin, Operation};

const OS_LABEL: &str = "kubernetes.io/os";

#[derive(Debug)]
pub(super) struct PodResizeValidatorPlugin;

/// Why a resize is rejected.
#[derive(Debug, PartialEq, Eq)]
struct ResizeRejection {
    message: String,
    cause: &'static str,
}

#[async_trait]
impl AdmissionPlugin for PodResizeValidatorPlugin {
    fn handles(&self, step: AdmissionPass, attributes: &AdmissionAttributes<'_>) -> bool {
        step == AdmissionPass::Validation
            && attributes.operation == Operation::Update
            && attributes.subresource() == "resize"
            && attributes.is_resource_or_subresource("", "pods")
    }

    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&JsonObject>,
    ) -> Result<(), Status> {
        let (Some(pod), Some(old)) = (object, attributes.old_object) else {
            return Ok(());
        };
        let is_resized = pod.get("spec") != old.get("spec");
        let node_name = fields::get(pod, "spec.nodeName").and_then(Value::as_str);
        let Some(node_name) = node_name.filter(|name| !name.is_empty() && is_resized) else {
            return Ok(());
        };
        let context = attributes.context;
        let Some(node) = object_lookup::cached_cluster_object(context, "", "nodes", node_name)?
        else {
            return Err(attributes.forbidden(object, format!("node {node_name:?} not found")));
        };
        check_resize(pod, &node, node_name).map_err(|rejection| {
            let mut status = attributes.forbidden(object, rejection.message);
            if let Some(details) = &mut status.details {
                details.causes.push(StatusCause {
                    reason: CauseType::from(rejection.cause),
                    ..StatusCause::default()
                });
            }
            status
        })
    }
}

fn check_resize(pod: &JsonObject, node: &JsonObject, name: &str) -> Result<(), ResizeRejection> {
    let labels = node
        .get("metadata")
        .and_then(|metadata| metadata.get("labels"));
    let os = labels.and_then(|labels| labels.get(OS_LABEL)?.as_str());
    if let Some(os) = os.filter(|os| *os != "linux") {
        return Err(ResizeRejection {
            message: format!(
                "pod resize is only supported on linux nodes, node {name:?} is {os:?}"
            ),
            cause: "UnsupportedPlatform",
        });
    }
    let requests = PartialPod::from_object(pod).requests(PodResourcesOptions {
        include_overhead: true,
        include_pod_level_huge_pages: true,
        use_status_resources: false,
        default_missing_requests: false,
    });
    let allocatable = |resource: &str| {
        let amount = fields::get(node, "status.allocatable")?.get(resource)?;
        Quantity::from_json(amount).ok()
    };
    let exceeded: Vec<String> = [
        ("cpu", Quantity::milli_value as fn(&Quantity) -> i64),
        ("memory", Quantity::value),
    ]
    .into_iter()
    .filter_map(|(resource, unit)| {
        let requested = requests.get(resource)?;
        let allocatable = allocatable(resource).unwrap_or_default();
        (*requested > allocatable).then(|| {
            format!(
                "{resource}, requested: {}, allocatable: {}",
                unit(requested),
                unit(&allocatable)
            )
        })
    })
    .collect();
    if exceeded.is_empty() {
        return Ok(());
    }
    Err(ResizeRejection {
        message: format!(
            "node didn't have enough allocatable resources: {}",
            exceeded.join("; ")
        ),
        cause: "NodeCapacity",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_registry::testing::object;
    use serde_json::json;

    #[test]
    fn requests_must_fit_into_the_node() {
        let pod = |cpu: &str, memory: &str| {
            object(json!({"spec": {
                "overhead": {"cpu": "100m"},
                "containers": [{"resources": {"requests": {"cpu": cpu, "memory": memory}}}],
            }}))
        };
        let node = |os: &str| {
            object(json!({
                "metadata": {"labels": {OS_LABEL: os}},
                "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}},
            }))
        };
        let message = |pod: JsonObject, node: JsonObject| {
            let result = check_resize(&pod, &node, "n");
            result
                .err()
                .map(|rejection| (rejection.cause, rejection.message))
        };
        assert_eq!(message(pod("1900m", "1Gi"), node("linux")), None);
        let text = "node didn't have enough allocatable resources: cpu, requested: 2100, allocatable: 2000; \
                    memory, requested: 2147483648, allocatable: 1073741824";
        assert_eq!(
            message(pod("2", "2Gi"), node("linux")),
            Some(("NodeCapacity", text.to_owned()))
        );
        let text = "pod resize is only supported on linux nodes, node \"n\" is \"windows\"";
        assert_eq!(
            message(pod("1", "1Gi"), node("windows")),
            Some(("UnsupportedPlatform", text.to_owned()))
        );
    }

    #[test]
    fn a_node_without_allocatable_resources_fits_nothing() {
        let pod =
            object(json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}}));
        assert!(check_resize(&pod, &JsonObject::new(), "n").is_err());
    }
}
