//! SelfSubjectRulesReview.

use crate::{Kind, Scope, Verb};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "authorization.k8s.io",
        "v1",
        "SelfSubjectRulesReview",
        "selfsubjectrulesreviews",
        "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
    )
    .verbs(&[Verb::Create])
    .not_stored()
}
