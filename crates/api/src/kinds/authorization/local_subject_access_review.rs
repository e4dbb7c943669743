//! LocalSubjectAccessReview.

use crate::{Kind, Scope, Verb};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "authorization.k8s.io",
        "v1",
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
    )
    .verbs(&[Verb::Create])
    .not_stored()
}
