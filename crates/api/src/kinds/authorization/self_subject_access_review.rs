//! SelfSubjectAccessReview.

use crate::{Kind, Scope, Verb};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "authorization.k8s.io",
        "v1",
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
    )
    .verbs(&[Verb::Create])
    .not_stored()
}
