//! Declares `SelfSubjectReview`, which has no strategy of its own.

use crate::{Kind, ResourceScope, Verb};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "authentication.k8s.io",
        "v1",
        "SelfSubjectReview",
        "selfsubjectreviews",
        "io.k8s.api.authentication.v1.SelfSubjectReview",
    )
    .verbs(&[Verb::Create])
    .not_stored()
}
