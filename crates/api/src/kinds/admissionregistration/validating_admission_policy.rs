//! ValidatingAdmissionPolicy.

use crate::{Generation, Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicy",
    )
    .category("api-extensions")
    .generation(Generation::Of(&["spec"]))
    .status()
}
