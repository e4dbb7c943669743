//! Pod.

use crate::{Generation, Kind, Scope, SubresourceKind, Verb};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "",
        "v1",
        "Pod",
        "pods",
        "io.k8s.api.core.v1.Pod",
    )
    .short(&["po"])
    .category("all")
    .generation(Generation::Of(&["spec"]))
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
}
