//! SubjectAccessReview.

use crate::{Kind, Scope, Verb};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "authorization.k8s.io",
        "v1",
        "SubjectAccessReview",
        "subjectaccessreviews",
        "io.k8s.api.authorization.v1.SubjectAccessReview",
    )
    .verbs(&[Verb::Create])
    .not_stored()
}
