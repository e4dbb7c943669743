//! ValidatingAdmissionPolicyBinding.

use crate::{Generation, Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBinding",
    )
    .category("api-extensions")
    .generation(Generation::Of(&["spec"]))
}
