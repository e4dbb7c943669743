//! The metric `kubernetes_feature_enabled`: which feature gates are enabled.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry as Exposition;
use rhumb_api::FeatureGates;
use rhumb_api::feature_gates::Feature;

#[derive(Debug)]
pub(super) struct FeatureGateMetrics(Family<FeatureGateLabels, Gauge>);

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FeatureGateLabels {
    name: &'static str,
    stage: &'static str,
}

impl FeatureGateMetrics {
    pub(super) fn register(exposition: &mut Exposition) -> FeatureGateMetrics {
        let enabled = Family::default();
        exposition.register(
            "kubernetes_feature_enabled",
            "Whether a feature is enabled, by name and stage",
            Family::clone(&enabled),
        );
        FeatureGateMetrics(enabled)
    }

    pub(super) fn gather(&self, gates: &FeatureGates) {
        for feature in Feature::all() {
            let spec = feature.spec();
            let labels = FeatureGateLabels {
                name: spec.name,
                stage: spec.stage.as_str(),
            };
            let is_enabled = gates.enabled(feature);
            self.0.get_or_create(&labels).set(i64::from(is_enabled));
        }
    }
}
