//! What watches were sent, by what they watch.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry as Exposition;

use super::set;
use crate::resources::{Registry, SIZES, Sent};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    group: String,
    version: String,
    resource: String,
}

#[derive(Debug)]
pub(super) struct Watches {
    events: Family<Labels, Counter>,
    sizes: Family<Labels, Sizes>,
}

impl Watches {
    pub(super) fn register(exposition: &mut Exposition) -> Watches {
        let watches = Watches {
            events: Family::default(),
            sizes: Family::default(),
        };
        exposition.register(
            "apiserver_watch_events",
            "Events sent to watches",
            watches.events.clone(),
        );
        exposition.register(
            "apiserver_watch_events_sizes",
            "Bytes of events sent to watches",
            watches.sizes.clone(),
        );
        watches
    }

    pub(super) fn gather(&self, registry: &Registry) {
        for resource in registry.iter() {
            for version in &resource.versions {
                let sent = version.watch_events.sent();
                if sent.events() == 0 {
                    continue;
                }
                let labels = Labels {
                    group: resource.kind.group.to_string(),
                    version: version.served.version.to_string(),
                    resource: resource.kind.plural.to_string(),
                };
                set(&self.events.get_or_create(&labels), sent.events());
                self.sizes.get_or_create(&labels).set(sent);
            }
        }
    }
}

/// A histogram that somebody else keeps.
#[derive(Debug, Clone, Default)]
struct Sizes(Arc<Mutex<Sent>>);

impl Sizes {
    fn set(&self, sent: Sent) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = sent;
    }
}

impl TypedMetric for Sizes {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Sizes {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let sent = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let limits = SIZES.iter().map(|&size| size as f64).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = limits.zip(sent.by_size).collect();
        encoder.encode_histogram::<NoLabelSet>(sent.bytes as f64, sent.events(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
