//! Node.

use crate::{Kind, Scope, SubresourceKind, Verb};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "",
        "v1",
        "Node",
        "nodes",
        "io.k8s.api.core.v1.Node",
    )
    .short(&["no"])
    .storage("minions")
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
    .speaks("", "v1", "NodeProxyOptions")
    .status()
}
