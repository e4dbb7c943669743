//! Service.

use crate::{Kind, Scope, SubresourceKind, Verb};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "",
        "v1",
        "Service",
        "services",
        "io.k8s.api.core.v1.Service",
    )
    .short(&["svc"])
    .category("all")
    .storage("services/specs")
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
    .speaks("", "v1", "ServiceProxyOptions")
    .status()
}
