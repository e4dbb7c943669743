//! Which features are on, as upstream says it.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry as Exposition;
use rhumb_api::Gates;
use rhumb_api::gates::Feature;

#[derive(Debug)]
pub(super) struct Features(Family<Labels, Gauge>);

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    name: &'static str,
    stage: &'static str,
}

impl Features {
    pub(super) fn register(exposition: &mut Exposition) -> Features {
        let enabled = Family::default();
        exposition.register(
            "kubernetes_feature_enabled",
            "Whether a feature is on, by name and stage",
            Family::clone(&enabled),
        );
        Features(enabled)
    }

    pub(super) fn gather(&self, gates: &Gates) {
        for feature in Feature::all() {
            let spec = feature.spec();
            let labels = Labels {
                name: spec.name,
                stage: spec.stage.as_str(),
            };
            let is_on = gates.enabled(feature);
            self.0.get_or_create(&labels).set(i64::from(is_on));
        }
    }
}
