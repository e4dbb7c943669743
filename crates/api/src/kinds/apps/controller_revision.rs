//! ControllerRevision.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "apps",
        "v1",
        "ControllerRevision",
        "controllerrevisions",
        "io.k8s.api.apps.v1.ControllerRevision",
    )
}
