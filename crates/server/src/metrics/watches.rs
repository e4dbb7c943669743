//! Metrics of events sent to watches, by resource.

use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::Registry as Exposition;

use super::set_counter;
use rhumb_registry::{EVENT_SIZE_BUCKETS, ResourceTable, WatchEventTotals};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WatchEventLabels {
    group: String,
    version: String,
    resource: String,
}

#[derive(Debug)]
pub(super) struct WatchEventMetrics {
    events: Family<WatchEventLabels, Counter>,
    sizes: Family<WatchEventLabels, EventSizeHistogram>,
}

impl WatchEventMetrics {
    pub(super) fn register(exposition: &mut Exposition) -> WatchEventMetrics {
        let watches = WatchEventMetrics {
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

    pub(super) fn gather(&self, registry: &ResourceTable) {
        for resource in registry.iter() {
            for version in &resource.versions {
                let totals = version.watch_event_counters.totals();
                if totals.events() == 0 {
                    continue;
                }
                let labels = WatchEventLabels {
                    group: resource.kind.group.to_string(),
                    version: version.served.version.to_string(),
                    resource: resource.kind.plural.to_string(),
                };
                set_counter(&self.events.get_or_create(&labels), totals.events());
                self.sizes.get_or_create(&labels).set(totals);
            }
        }
    }
}

/// A histogram whose values are maintained elsewhere.
#[derive(Debug, Clone, Default)]
struct EventSizeHistogram(Arc<Mutex<WatchEventTotals>>);

impl EventSizeHistogram {
    fn set(&self, totals: WatchEventTotals) {
        *self.0.lock() = totals;
    }
}

impl TypedMetric for EventSizeHistogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for EventSizeHistogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let totals = *self.0.lock();
        let limits = EVENT_SIZE_BUCKETS
            .iter()
            .map(|&size| size as f64)
            .chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = limits.zip(totals.by_size).collect();
        encoder.encode_histogram::<NoLabelSet>(totals.bytes as f64, totals.events(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
