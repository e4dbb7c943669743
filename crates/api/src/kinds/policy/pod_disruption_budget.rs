//! PodDisruptionBudget.

use crate::{Generation, Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        "io.k8s.api.policy.v1.PodDisruptionBudget",
    )
    .short(&["pdb"])
    .generation(Generation::Of(&["spec"]))
    .status()
}
