//! ServiceAccount.

use crate::{Kind, Scope, SubresourceKind, Verb};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "",
        "v1",
        "ServiceAccount",
        "serviceaccounts",
        "io.k8s.api.core.v1.ServiceAccount",
    )
    .short(&["sa"])
    .subresource("token", SubresourceKind::Token, &[Verb::Create])
    .speaks("authentication.k8s.io", "v1", "TokenRequest")
}
