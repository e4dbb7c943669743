//! MutatingWebhookConfiguration.

use super::webhooks::Webhooks;
use crate::{Generation, Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        "io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration",
    )
    .any_finalizers()
    .category("api-extensions")
    .generation(Generation::Of(&["webhooks"]))
    .updates_need_version()
    .rules(Webhooks)
}
