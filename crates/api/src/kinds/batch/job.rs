//! Job.

use crate::{Generation, Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "batch",
        "v1",
        "Job",
        "jobs",
        "io.k8s.api.batch.v1.Job",
    )
    .category("all")
    .generation(Generation::Of(&["spec"]))
    .status()
}
