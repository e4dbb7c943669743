//! Declares `LocalSubjectAccessReview`, which has no strategy of its own.

use crate::{Kind, ResourceScope, Verb};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "authorization.k8s.io",
        "v1",
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
    )
    .verbs(&[Verb::Create])
    .not_stored()
}
