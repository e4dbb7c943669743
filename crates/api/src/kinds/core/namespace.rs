//! Namespace.

use crate::{Kind, Scope, SubresourceKind, Verb};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "",
        "v1",
        "Namespace",
        "namespaces",
        "io.k8s.api.core.v1.Namespace",
    )
    .short(&["ns"])
    .verbs(&[
        Verb::Create,
        Verb::Delete,
        Verb::Get,
        Verb::List,
        Verb::Patch,
        Verb::Update,
        Verb::Watch,
    ])
    .subresource("finalize", SubresourceKind::Finalize, &[Verb::Update])
    .status()
}
