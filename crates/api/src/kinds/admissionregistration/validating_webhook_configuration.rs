//! ValidatingWebhookConfiguration.

use super::webhooks::Webhooks;
use crate::{Generation, Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        "io.k8s.api.admissionregistration.v1.ValidatingWebhookConfiguration",
    )
    .any_finalizers()
    .category("api-extensions")
    .generation(Generation::Of(&["webhooks"]))
    .updates_need_version()
    .rules(Webhooks)
}
