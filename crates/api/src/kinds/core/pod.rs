//! Pod.

use rhumb_meta::field::ErrorList;
use serde_json::Value;

use crate::{
    Generation, Kind, Object, Request, Rules, Scope, Selectable, Selected, SubresourceKind, Verb,
    View, pods,
};

const SELECTABLE: &[Selectable] = &[
    Selectable {
        name: "spec.nodeName",
        value: Selected::Text("spec.nodeName"),
    },
    Selectable {
        name: "spec.restartPolicy",
        value: Selected::Text("spec.restartPolicy"),
    },
    Selectable {
        name: "spec.schedulerName",
        value: Selected::Text("spec.schedulerName"),
    },
    Selectable {
        name: "spec.serviceAccountName",
        value: Selected::Text("spec.serviceAccountName"),
    },
    Selectable {
        name: "spec.hostNetwork",
        value: Selected::Flag("spec.hostNetwork"),
    },
    Selectable {
        name: "status.phase",
        value: Selected::Text("status.phase"),
    },
    Selectable {
        // Defaults keep it the first of the pod's addresses.
        name: "status.podIP",
        value: Selected::Text("status.podIP"),
    },
    Selectable {
        name: "status.nominatedNodeName",
        value: Selected::Text("status.nominatedNodeName"),
    },
];

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "",
        "v1",
        "Pod",
        "pods",
        "io.k8s.api.core.v1.Pod",
    )
    .returns_deleted()
    .short(&["po"])
    .category("all")
    .generation(Generation::Of(&["spec"]))
    .selectable(SELECTABLE)
    .indexed(&["spec.nodeName"])
    .rules(PodRules)
    .subresource("attach", SubresourceKind::Node, &[Verb::Create, Verb::Get])
    .speaks("", "v1", "PodAttachOptions")
    .subresource("binding", SubresourceKind::Binding, &[Verb::Create])
    .speaks("", "v1", "Binding")
    .subresource(
        "ephemeralcontainers",
        SubresourceKind::EphemeralContainers,
        &[Verb::Get, Verb::Patch, Verb::Update],
    )
    .subresource("eviction", SubresourceKind::Eviction, &[Verb::Create])
    .speaks("policy", "v1", "Eviction")
    .subresource("exec", SubresourceKind::Node, &[Verb::Create, Verb::Get])
    .speaks("", "v1", "PodExecOptions")
    .subresource("log", SubresourceKind::Node, &[Verb::Get])
    .subresource(
        "portforward",
        SubresourceKind::Node,
        &[Verb::Create, Verb::Get],
    )
    .speaks("", "v1", "PodPortForwardOptions")
    .subresource(
        "proxy",
        SubresourceKind::Node,
        &[
            Verb::Create,
            Verb::Delete,
            Verb::Get,
            Verb::Patch,
            Verb::Update,
        ],
    )
    .speaks("", "v1", "PodProxyOptions")
    .subresource(
        "resize",
        SubresourceKind::Resize,
        &[Verb::Get, Verb::Patch, Verb::Update],
    )
    .status()
    .status_keeps(&["ownerReferences"])
}

#[derive(Debug)]
struct PodRules;

impl Rules for PodRules {
    fn default(&self, pod: &mut Object) {
        pods::mirror_pod_ip(pod);
        pods::mend_grace(pod);
    }

    fn prepare_create(&self, pod: &mut Object, request: &Request<'_>) {
        pods::prepare_create(pod, request);
    }

    fn prepare_update(&self, pod: &mut Object, old: &Object, request: &Request<'_>) {
        match old.get("status") {
            Some(status) => pod.insert("status".to_owned(), status.clone()),
            None => pod.remove("status"),
        };
        if let Some(Value::Object(spec)) = pod.get_mut("spec") {
            let old = old.get("spec").and_then(Value::as_object);
            pods::drop_unserved_fields(spec, old, request.gates);
        }
    }

    fn validate_create(&self, pod: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        pods::validate_create(pod, errors);
    }

    fn validate_update(
        &self,
        pod: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        pods::validate_update(pod, old, errors);
    }

    fn prepare_status_update(&self, pod: &mut Object, old: &Object, _: &Request<'_>) {
        pods::prepare_status_update(pod, old);
    }

    fn validate_status_update(
        &self,
        pod: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        pods::validate_status_update(pod, old, errors);
    }

    fn prepare_subresource(
        &self,
        subresource: &str,
        pod: &mut Object,
        old: &Object,
        _: &Request<'_>,
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
        pod: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        match subresource {
            "ephemeralcontainers" => pods::validate_ephemeral_containers(pod, old, errors),
            "resize" => pods::validate_resize(pod, old, errors),
            _ => {}
        }
    }

    fn warnings(&self, pod: &View<'_>, old: Option<&View<'_>>, warnings: &mut Vec<String>) {
        if old.is_none() {
            pods::pod_warnings(pod, warnings);
        }
    }

    /// A pod that runs nowhere, or no more, ends at once.
    fn grace_seconds(&self, pod: &View<'_>, requested: Option<i64>) -> Option<i64> {
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
