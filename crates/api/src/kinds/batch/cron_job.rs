//! CronJob.

use crate::{Generation, Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "batch",
        "v1",
        "CronJob",
        "cronjobs",
        "io.k8s.api.batch.v1.CronJob",
    )
    .short(&["cj"])
    .category("all")
    .generation(Generation::Of(&["spec"]))
    .status()
}
