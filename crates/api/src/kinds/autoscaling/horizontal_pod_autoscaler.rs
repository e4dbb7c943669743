//! HorizontalPodAutoscaler.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
    )
    .short(&["hpa"])
    .category("all")
    .status()
}
