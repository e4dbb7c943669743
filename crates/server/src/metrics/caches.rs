//! Metrics of the watch caches: watchers, dispatch, lists and list indexes. Collected at scrape time.

use std::collections::BTreeMap;
use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rhumb_cache::{
    CacheStats, HistogramSnapshot, IndexMeasurement, IndexOrigin, IndexStats, IndexUsage,
    IndexedAttribute, ResourceCache,
};

use rhumb_handlers::ServerState;
use rhumb_registry::Resource;

/// The name in KEP-4933 with the prefix of this cache's other metrics, and the name of earlier versions as an alias.
const WATCHERS_PER_EVENT_NAMES: [&str; 2] = [
    "apiserver_watch_cache_watch_dispatch_event_num_watchers",
    "apiserver_watch_cache_dispatch_event_num_watchers",
];

/// Statistics of all caches with activity or indexes, encoded as metrics.
#[derive(Debug)]
pub(super) struct WatchCacheCollector(Vec<ResourceCacheStats>);

/// Statistics of the cache of one resource.
#[derive(Debug)]
struct ResourceCacheStats {
    resource: ResourceLabels,
    /// Go type of its objects, which upstream's watch cache metrics use as resource label.
    go_type: GoTypeLabels,
    stats: CacheStats,
    watchers: Vec<(String, usize)>,
    watchers_per_event: HistogramSnapshot,
    dispatch_latency: HistogramSnapshot,
    indexes: Vec<(String, IndexStats)>,
    lists: Vec<(String, IndexUsage)>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResourceLabels {
    group: String,
    resource: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct GoTypeLabels {
    resource: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WatcherIndexLabels {
    index: String,
    resource: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ListIndexLabels {
    group: String,
    resource: String,
    index: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct IndexStatsLabels {
    group: String,
    resource: String,
    index: String,
    /// Labels and fields may have the same name.
    r#type: &'static str,
    origin: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct HotValueLabels {
    group: String,
    resource: String,
    index: String,
    r#type: &'static str,
    value: String,
}

impl WatchCacheCollector {
    /// Omits resources without indexes and activity: most have neither watchers nor lists.
    pub(super) fn collect(state: &ServerState) -> WatchCacheCollector {
        let resources = state.registry.resources();
        let stored = resources.iter().filter_map(|resource| {
            // Resources that share the storage of another kind are counted there.
            let storage = resource.storage.as_ref()?;
            resource.kind.stored_as.is_none().then_some(())?;
            Some((resource, &storage.cache))
        });
        let mut cache_stats: Vec<_> = stored
            .map(|(resource, cache)| ResourceCacheStats::collect(resource, cache))
            .collect();
        cache_stats.retain(|cache| cache.has_activity() || !cache.indexes.is_empty());
        WatchCacheCollector(cache_stats)
    }
}

impl ResourceCacheStats {
    fn collect(resource: &Resource, cache: &ResourceCache) -> ResourceCacheStats {
        let index_name = |attribute: &IndexedAttribute| match attribute {
            IndexedAttribute::Label(key) => key.to_string(),
            IndexedAttribute::Field(index) => {
                let field = resource.kind.selectable.get(*index);
                field.map_or_else(String::new, |field| field.name.to_string())
            }
        };
        let watchers = cache.watchers_by_index().into_iter();
        let indexes = cache.index_stats().into_iter();
        let lists = cache.lists_by_index().into_iter();
        ResourceCacheStats {
            resource: ResourceLabels {
                group: resource.kind.group.to_string(),
                resource: resource.kind.plural.to_string(),
            },
            go_type: GoTypeLabels {
                resource: format!("*{}", resource.go_type()),
            },
            stats: cache.stats(),
            watchers: watchers.map(|(name, count)| (name.into(), count)).collect(),
            watchers_per_event: cache.watchers_evaluated(),
            dispatch_latency: cache.dispatch_lag(),
            indexes: indexes
                .map(|stats| (index_name(&stats.attribute), stats))
                .collect(),
            lists: lists
                .map(|(attribute, count)| (index_name(&attribute), count))
                .collect(),
        }
    }

    fn has_activity(&self) -> bool {
        let stats = &self.stats;
        stats.changes > 0 || stats.list_examined > 0 || stats.watchers > 0
    }

    fn list_index_labels(&self, index: &str) -> ListIndexLabels {
        ListIndexLabels {
            group: self.resource.group.clone(),
            resource: self.resource.resource.clone(),
            index: index.to_owned(),
        }
    }
}

impl Collector for WatchCacheCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        self.encode_watches(&mut encoder)?;
        self.encode_lists(&mut encoder)?;
        self.encode_indexes(&mut encoder)
    }
}

impl WatchCacheCollector {
    fn encode_watches(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut family = MetricFamilyEncoder::gauge(
            encoder,
            "apiserver_watch_cache_watcher_counter",
            "Watchers, by the label or field they are indexed by; watchers without an index are shown every event",
        )?;
        for cache_stats in &self.0 {
            for (index, count) in &cache_stats.watchers {
                let labels = WatcherIndexLabels {
                    index: index.clone(),
                    resource: cache_stats.go_type.resource.clone(),
                };
                family.put(&labels, &ConstGauge::new(super::count(*count)))?;
            }
        }
        for name in WATCHERS_PER_EVENT_NAMES {
            let mut family = MetricFamilyEncoder::histogram(
                encoder,
                name,
                "Number of watchers whose selectors were evaluated for an event",
            )?;
            for cache_stats in &self.0 {
                let distribution = &cache_stats.watchers_per_event;
                family.put_distribution(&cache_stats.go_type, distribution, 1.0)?;
            }
        }
        let mut family = MetricFamilyEncoder::histogram(
            encoder,
            "rhumb_watch_cache_dispatch_duration_seconds",
            "Time from receiving a change until the last interested watcher has it in its queue",
        )?;
        for cache_stats in &self.0 {
            family.put_distribution(&cache_stats.resource, &cache_stats.dispatch_latency, 1e6)?;
        }
        self.counters(
            encoder,
            "apiserver_watch_cache_events_dispatched",
            "Events dispatched to watchers",
            |stats| stats.changes,
        )?;
        self.counters(
            encoder,
            "rhumb_watch_cache_deliveries",
            "Events added to the queues of watchers",
            |stats| stats.delivered_events,
        )?;
        self.counters(
            encoder,
            "rhumb_watch_cache_overflows",
            "How often the queue of a slow watcher overflowed, so that it had to catch up from the event history",
            |stats| stats.queue_overflows,
        )?;
        self.counters(
            encoder,
            "apiserver_terminated_watchers",
            "Watchers terminated because their position was no longer in the event history",
            |stats| stats.expired_watchers,
        )
    }

    fn encode_lists(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        type ListStatGetter = fn(u64, u64) -> u64;
        let metrics: [(&str, &str, ListStatGetter); 2] = [
            (
                "apiserver_cache_list",
                "Lists with selectors, by the index that served them",
                |lists, _| lists,
            ),
            (
                "apiserver_cache_list_fetched_objects",
                "Objects examined by lists with selectors",
                |_, scanned| scanned,
            ),
        ];
        for (name, help, number) in metrics {
            let mut family = MetricFamilyEncoder::counter(encoder, name, help)?;
            for cache_stats in &self.0 {
                let stats = &cache_stats.stats;
                let scans = number(stats.full_scans, stats.full_scan_examined);
                // A label and a field may have the same name.
                let mut by_name = BTreeMap::from([("", scans)]);
                for (index, count) in &cache_stats.lists {
                    *by_name.entry(index).or_default() += number(count.lists, count.examined);
                }
                for (index, count) in by_name {
                    family.put(
                        &cache_stats.list_index_labels(index),
                        &ConstCounter::new(count),
                    )?;
                }
            }
        }
        self.counters(
            encoder,
            "apiserver_cache_list_returned_objects",
            "Objects returned by lists with selectors",
            |stats| stats.list_matched,
        )
    }

    fn encode_indexes(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        type IndexStatGetter = fn(&IndexMeasurement) -> usize;
        let metrics: [(&str, &str, IndexStatGetter); 3] = [
            ("rhumb_list_index_entries", "Objects in an index", |index| {
                index.entries
            }),
            ("rhumb_list_index_bytes", "Memory of an index", |index| {
                index.bytes
            }),
            (
                "rhumb_list_index_values",
                "Distinct values in an index",
                |index| index.values,
            ),
        ];
        for (name, help, number) in metrics {
            let mut family = MetricFamilyEncoder::gauge(encoder, name, help)?;
            for cache_stats in &self.0 {
                for (index, stats) in &cache_stats.indexes {
                    let labels = IndexStatsLabels {
                        group: cache_stats.resource.group.clone(),
                        resource: cache_stats.resource.resource.clone(),
                        index: index.clone(),
                        r#type: attribute_type(&stats.attribute),
                        origin: match (stats.origin, &stats.attribute) {
                            (IndexOrigin::Adaptive, _) => "adaptive",
                            (IndexOrigin::Configured, IndexedAttribute::Label(_)) => "configured",
                            (IndexOrigin::Configured, IndexedAttribute::Field(_)) => "built-in",
                        },
                    };
                    let number = number(&stats.measurement);
                    family.put(&labels, &ConstGauge::new(super::count(number)))?;
                }
            }
        }
        self.encode_hot_values(encoder)
    }

    fn encode_hot_values(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut family = MetricFamilyEncoder::gauge(
            encoder,
            "rhumb_list_index_hot_value_entries",
            "Objects with one of the most frequent values of an index, if these are at least a sixteenth of it",
        )?;
        for cache_stats in &self.0 {
            for (index, stats) in &cache_stats.indexes {
                for (value, objects) in &stats.measurement.hot_values {
                    let labels = HotValueLabels {
                        group: cache_stats.resource.group.clone(),
                        resource: cache_stats.resource.resource.clone(),
                        index: index.clone(),
                        r#type: attribute_type(&stats.attribute),
                        value: value.to_string(),
                    };
                    family.put(&labels, &ConstGauge::new(super::count(*objects)))?;
                }
            }
        }
        Ok(())
    }

    fn counters(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        name: &str,
        help: &str,
        number: fn(&CacheStats) -> u64,
    ) -> Result<(), Error> {
        let mut family = MetricFamilyEncoder::counter(encoder, name, help)?;
        for cache_stats in &self.0 {
            let counter = ConstCounter::new(number(&cache_stats.stats));
            family.put(&cache_stats.resource, &counter)?;
        }
        Ok(())
    }
}

fn attribute_type(attribute: &IndexedAttribute) -> &'static str {
    match attribute {
        IndexedAttribute::Label(_) => "label",
        IndexedAttribute::Field(_) => "field",
    }
}

/// Encodes all samples of one metric name.
struct MetricFamilyEncoder<'e>(MetricEncoder<'e>);

impl<'e> MetricFamilyEncoder<'e> {
    fn gauge(
        encoder: &'e mut DescriptorEncoder<'_>,
        name: &'e str,
        help: &str,
    ) -> Result<Self, Error> {
        MetricFamilyEncoder::new(encoder, name, help, MetricType::Gauge)
    }

    fn counter(
        encoder: &'e mut DescriptorEncoder<'_>,
        name: &'e str,
        help: &str,
    ) -> Result<Self, Error> {
        MetricFamilyEncoder::new(encoder, name, help, MetricType::Counter)
    }

    fn histogram(
        encoder: &'e mut DescriptorEncoder<'_>,
        name: &'e str,
        help: &str,
    ) -> Result<Self, Error> {
        MetricFamilyEncoder::new(encoder, name, help, MetricType::Histogram)
    }

    fn new(
        encoder: &'e mut DescriptorEncoder<'_>,
        name: &'e str,
        help: &str,
        kind: MetricType,
    ) -> Result<Self, Error> {
        Ok(MetricFamilyEncoder(
            encoder.encode_descriptor(name, help, None, kind)?,
        ))
    }

    fn put(
        &mut self,
        labels: &impl EncodeLabelSet,
        metric: &impl EncodeMetric,
    ) -> Result<(), Error> {
        metric.encode(self.0.encode_family(labels)?)
    }

    /// Encodes a histogram with bounds and sum divided by `unit`.
    fn put_distribution(
        &mut self,
        labels: &impl EncodeLabelSet,
        distribution: &HistogramSnapshot,
        unit: f64,
    ) -> Result<(), Error> {
        let buckets = distribution.buckets.iter();
        let mut buckets: Vec<_> = buckets
            .map(|(bound, count)| (*bound as f64 / unit, *count))
            .collect();
        let in_buckets: u64 = buckets.iter().map(|(_, count)| count).sum();
        buckets.push((f64::INFINITY, distribution.count - in_buckets));
        let sum = distribution.sum as f64 / unit;
        self.0
            .encode_family(labels)?
            .encode_histogram::<NoLabelSet>(sum, distribution.count, &buckets, None)
    }
}
