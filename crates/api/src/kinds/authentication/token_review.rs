//! TokenReview.

use crate::{Kind, Scope, Verb};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "authentication.k8s.io",
        "v1",
        "TokenReview",
        "tokenreviews",
        "io.k8s.api.authentication.v1.TokenReview",
    )
    .verbs(&[Verb::Create])
    .not_stored()
}
