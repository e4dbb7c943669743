//! Declares `MutatingWebhookConfiguration` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/admissionregistration/validation`.

use super::webhooks::WebhookConfigurationStrategy;
use crate::{GenerationPolicy, Kind, ResourceScope};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        "io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration",
    )
    .allow_any_finalizer()
    .category("api-extensions")
    .generation(GenerationPolicy::ChangesTo(&["webhooks"]))
    .requires_resource_version()
    .strategy(WebhookConfigurationStrategy)
}
