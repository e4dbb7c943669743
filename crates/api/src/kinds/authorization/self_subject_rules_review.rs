//! Declares `SelfSubjectRulesReview`, which has no strategy of its own.

use crate::{Kind, ResourceScope, Verb};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "authorization.k8s.io",
        "v1",
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
    )
    .verbs(&[Verb::Create])
    .not_stored()
}
