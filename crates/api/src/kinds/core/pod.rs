//! Declares `Pod` and its strategy: preparation, validation and warnings, as in upstream's `pkg/apis/core/validation`.

use rhumb_meta::field::ErrorList;
use serde_json::Value;

use crate::{
    FieldView, GenerationPolicy, JsonObject, Kind, ResourceScope, ResourceStrategy,
    SelectableField, StrategyContext, SubresourceKind, Verb, pods,
};

const SELECTABLE: &[SelectableField] = &[
    SelectableField::string("spec.nodeName", "spec.nodeName"),
    SelectableField::string("spec.restartPolicy", "spec.restartPolicy"),
    SelectableField::string("spec.schedulerName", "spec.schedulerName"),
    SelectableField::string("spec.serviceAccountName", "spec.serviceAccountName"),
    SelectableField::boolean("spec.hostNetwork", "spec.hostNetwork"),
    SelectableField::string("status.phase", "status.phase"),
    // Defaulting keeps it equal to the first item of `podIPs`.
    SelectableField::string("status.podIP", "status.podIP"),
    SelectableField::string("status.nominatedNodeName", "status.nominatedNodeName"),
];

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "",
        "v1",
        "Pod",
        "pods",
        "io.k8s.api.core.v1.Pod",
    )
    .returns_deleted()
    .short_names(&["po"])
    .category("all")
    .generation(GenerationPolicy::ChangesTo(&["spec"]))
    .selectable(SELECTABLE)
    .indexed(&["spec.nodeName"])
    .strategy(PodStrategy)
    .subresource(
        "attach",
        SubresourceKind::NodeProxied,
        &[Verb::Create, Verb::Get],
    )
    .with_subresource_object("", "v1", "PodAttachOptions")
    .subresource("binding", SubresourceKind::Binding, &[Verb::Create])
    .with_subresource_object("", "v1", "Binding")
    .subresource(
        "ephemeralcontainers",
        SubresourceKind::EphemeralContainers,
        &[Verb::Get, Verb::Patch, Verb::Update],
    )
    .subresource("eviction", SubresourceKind::Eviction, &[Verb::Create])
    .with_subresource_object("policy", "v1", "Eviction")
    .subresource(
        "exec",
        SubresourceKind::NodeProxied,
        &[Verb::Create, Verb::Get],
    )
    .with_subresource_object("", "v1", "PodExecOptions")
    .subresource("log", SubresourceKind::NodeProxied, &[Verb::Get])
    .subresource(
        "portforward",
        SubresourceKind::NodeProxied,
        &[Verb::Create, Verb::Get],
    )
    .with_subresource_object("", "v1", "PodPortForwardOptions")
    .subresource(
        "proxy",
        SubresourceKind::NodeProxied,
        &[
            Verb::Create,
            Verb::Delete,
            Verb::Get,
            Verb::Patch,
            Verb::Update,
        ],
    )
    .with_subresource_object("", "v1", "PodProxyOptions")
    .subresource(
        "resize",
        SubresourceKind::Resize,
        &[Verb::Get, Verb::Patch, Verb::Update],
    )
    .status()
    .status_update_preserves(&["ownerReferences"])
}

#[derive(Debug)]
struct PodStrategy;

impl ResourceStrategy for PodStrategy {
    fn apply_defaults(&self, pod: &mut JsonObject) {
        pods::mirror_pod_ip(pod);
        pods::fix_negative_grace_period(pod);
    }

    fn prepare_create(&self, pod: &mut JsonObject, request: &StrategyContext<'_>) {
        pods::prepare_create(pod, request);
    }

    fn prepare_update(
        &self,
        pod: &mut JsonObject,
        old: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        match old.get("status") {
            Some(status) => pod.insert("status".to_owned(), status.clone()),
            None => pod.remove("status"),
        };
        if let Some(Value::Object(spec)) = pod.get_mut("spec") {
            let old = old.get("spec").and_then(Value::as_object);
            pods::drop_disabled_fields(spec, old, request.gates);
        }
    }

    fn validate_create(
        &self,
        pod: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        pods::validate_create(pod, errors);
    }

    fn validate_update(
        &self,
        pod: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        pods::validate_update(pod, old, errors);
    }

    fn prepare_status_update(
        &self,
        pod: &mut JsonObject,
        old: &JsonObject,
        _: &StrategyContext<'_>,
    ) {
        pods::prepare_status_update(pod, old);
    }

    fn validate_status_update(
        &self,
        pod: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        pods::validate_status_update(pod, old, errors);
    }

    fn prepare_subresource(
        &self,
        subresource: &str,
        pod: &mut JsonObject,
        old: &JsonObject,
        _: &StrategyContext<'_>,
    ) {
        match subresource {
            "ephemeralcontainers" => pods::prepare_ephemeral_containers(pod, old),
            "resize" => pods::prepare_resize(pod, old),
            _ => {}
        }
    }

    fn validate_subresource(
        &self,
        subresource: &str,
        pod: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        match subresource {
            "ephemeralcontainers" => pods::validate_ephemeral_containers(pod, old, errors),
            "resize" => pods::validate_resize(pod, old, errors),
            _ => {}
        }
    }

    fn warnings(
        &self,
        pod: &FieldView<'_>,
        old: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
        if old.is_none() {
            pods::pod_warnings(pod, warnings);
        }
    }

    /// A pod that is unscheduled or has terminated is deleted without a grace period.
    fn grace_period_seconds(&self, pod: &FieldView<'_>, requested: Option<i64>) -> Option<i64> {
        let (spec, status) = (pod.field("spec"), pod.field("status"));
        let is_over = matches!(status.text("phase"), "Failed" | "Succeeded");
        if spec.text("nodeName").is_empty() || is_over {
            return Some(0);
        }
        let seconds = requested.or_else(|| spec.field("terminationGracePeriodSeconds").int());
        match seconds.unwrap_or_default() {
            negative if negative < 0 => Some(1),
            seconds => Some(seconds),
        }
    }
}
