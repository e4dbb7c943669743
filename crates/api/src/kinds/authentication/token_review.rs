//! Declares `TokenReview`, which has no strategy of its own.

use crate::{Kind, ResourceScope, Verb};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "authentication.k8s.io",
        "v1",
        "TokenReview",
        "tokenreviews",
        "io.k8s.api.authentication.v1.TokenReview",
    )
    .verbs(&[Verb::Create])
    .not_stored()
}
