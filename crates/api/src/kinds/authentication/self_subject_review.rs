//! SelfSubjectReview.

use crate::{Kind, Scope, Verb};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "authentication.k8s.io",
        "v1",
        "SelfSubjectReview",
        "selfsubjectreviews",
        "io.k8s.api.authentication.v1.SelfSubjectReview",
    )
    .verbs(&[Verb::Create])
    .not_stored()
}
