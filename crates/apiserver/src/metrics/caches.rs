//! What the caches did: who watches, what a change costs, and what lists look at. Asked for when somebody looks.

use std::collections::BTreeMap;
use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rhumb_cache::{Attribute, Cache, Distribution, IndexStats, ListCount, Origin, Stats};

use crate::Api;
use crate::resources::Resource;

#[derive(Debug)]
pub(super) struct Caches(Vec<Figures>);

/// The numbers of one resource.
#[derive(Debug)]
struct Figures {
    resource: Name,
    /// The type of its objects, which the proposal names resources by.
    go_type: GoType,
    stats: Stats,
    watchers: Vec<(String, usize)>,
    watchers_asked: Distribution,
    dispatch: Distribution,
    indexes: Vec<(String, IndexStats)>,
    lists: Vec<(String, ListCount)>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Name {
    group: String,
    resource: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct GoType {
    resource: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Watched {
    index: String,
    resource: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Listed {
    group: String,
    resource: String,
    index: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Indexed {
    group: String,
    resource: String,
    index: String,
    origin: &'static str,
}

impl Caches {
    /// Resources that nothing happened to are left out: most have neither watchers nor lists.
    pub(super) fn of(api: &Api) -> Caches {
        let stored = api.registry.iter().filter_map(|resource| {
            // Those of another kind are counted with it.
            let storage = resource.storage.as_ref()?;
            resource.kind.stored_as.is_none().then_some(())?;
            Some((resource, &storage.cache))
        });
        let mut figures: Vec<_> = stored
            .map(|(resource, cache)| Figures::of(resource, cache))
            .collect();
        figures.retain(Figures::is_of_note);
        Caches(figures)
    }
}

impl Figures {
    fn of(resource: &Resource, cache: &Cache) -> Figures {
        let index_name = |attribute: &Attribute| match attribute {
            Attribute::Label(key) => key.to_string(),
            Attribute::Field(index) => {
                let field = resource.kind.selectable.get(*index);
                field.map_or_else(String::new, |field| field.name.to_owned())
            }
        };
        let watchers = cache.watchers_by_index().into_iter();
        let indexes = cache.index_stats().into_iter();
        let lists = cache.lists_by_index().into_iter();
        Figures {
            resource: Name {
                group: resource.kind.group.to_string(),
                resource: resource.kind.plural.to_string(),
            },
            go_type: GoType {
                resource: format!("*{}", resource.go_type()),
            },
            stats: cache.stats(),
            watchers: watchers.map(|(name, count)| (name.into(), count)).collect(),
            watchers_asked: cache.watchers_asked(),
            dispatch: cache.dispatch_lag(),
            indexes: indexes
                .map(|stats| (index_name(&stats.attribute), stats))
                .collect(),
            lists: lists
                .map(|(attribute, count)| (index_name(&attribute), count))
                .collect(),
        }
    }

    fn is_of_note(&self) -> bool {
        let stats = &self.stats;
        stats.changes > 0 || stats.list_looked_at > 0 || !self.watchers.is_empty()
    }

    fn listed(&self, index: &str) -> Listed {
        Listed {
            group: self.resource.group.clone(),
            resource: self.resource.resource.clone(),
            index: index.to_owned(),
        }
    }
}

impl Collector for Caches {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        self.encode_watches(&mut encoder)?;
        self.encode_lists(&mut encoder)?;
        self.encode_indexes(&mut encoder)
    }
}

impl Caches {
    fn encode_watches(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut family = Family::gauge(
            encoder,
            "apiserver_watch_cache_watcher_counter",
            "Watchers, by the label or field that changes find them by; without one, every change is shown to them",
        )?;
        for figures in &self.0 {
            for (index, count) in &figures.watchers {
                let labels = Watched {
                    index: index.clone(),
                    resource: figures.go_type.resource.clone(),
                };
                family.put(&labels, &ConstGauge::new(super::count(*count)))?;
            }
        }
        let mut family = Family::histogram(
            encoder,
            "apiserver_watch_cache_dispatch_event_num_watchers",
            "How many watchers an event was shown to",
        )?;
        for figures in &self.0 {
            family.put_distribution(&figures.go_type, &figures.watchers_asked, 1.0)?;
        }
        let mut family = Family::histogram(
            encoder,
            "rhumb_watch_cache_dispatch_duration_seconds",
            "From the arrival of a change to the queue of the last watcher that it concerns",
        )?;
        for figures in &self.0 {
            family.put_distribution(&figures.resource, &figures.dispatch, 1e6)?;
        }
        self.counters(
            encoder,
            "apiserver_watch_cache_events_dispatched",
            "Changes that were dispatched to watchers",
            |stats| stats.changes,
        )?;
        self.counters(
            encoder,
            "rhumb_watch_cache_deliveries",
            "Events that were put into the queues of watchers",
            |stats| stats.deliveries,
        )?;
        self.counters(
            encoder,
            "rhumb_watch_cache_overflows",
            "How often a watcher was slow and had to catch up from the history",
            |stats| stats.overflows,
        )?;
        self.counters(
            encoder,
            "apiserver_terminated_watchers",
            "Watchers that were ended because they fell out of the history",
            |stats| stats.terminated,
        )
    }

    fn encode_lists(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        type Number = fn(u64, u64) -> u64;
        let both: [(&str, &str, Number); 2] = [
            (
                "apiserver_cache_list",
                "Lists with selectors, by the index that served them",
                |lists, _| lists,
            ),
            (
                "apiserver_cache_list_fetched_objects",
                "Objects that lists with selectors looked at",
                |_, looked_at| looked_at,
            ),
        ];
        for (name, help, number) in both {
            let mut family = Family::counter(encoder, name, help)?;
            for figures in &self.0 {
                let stats = &figures.stats;
                let scans = number(stats.scans, stats.scan_looked_at);
                // A label may be called as a field is.
                let mut by_name = BTreeMap::from([("", scans)]);
                for (index, count) in &figures.lists {
                    *by_name.entry(index).or_default() += number(count.lists, count.looked_at);
                }
                for (index, count) in by_name {
                    family.put(&figures.listed(index), &ConstCounter::new(count))?;
                }
            }
        }
        self.counters(
            encoder,
            "apiserver_cache_list_returned_objects",
            "Objects that lists with selectors returned",
            |stats| stats.list_picked,
        )
    }

    fn encode_indexes(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        type Number = fn(&IndexStats) -> usize;
        let both: [(&str, &str, Number); 2] = [
            ("rhumb_list_index_entries", "Objects in an index", |stats| {
                stats.entries
            }),
            (
                "rhumb_list_index_bytes",
                "About what an index takes in memory",
                |stats| stats.bytes,
            ),
        ];
        for (name, help, number) in both {
            let mut family = Family::gauge(encoder, name, help)?;
            for figures in &self.0 {
                for (index, stats) in &figures.indexes {
                    let labels = Indexed {
                        group: figures.resource.group.clone(),
                        resource: figures.resource.resource.clone(),
                        index: index.clone(),
                        origin: match (stats.origin, &stats.attribute) {
                            (Origin::Adaptive, _) => "adaptive",
                            (Origin::Configured, Attribute::Label(_)) => "configured",
                            (Origin::Configured, Attribute::Field(_)) => "built-in",
                        },
                    };
                    family.put(&labels, &ConstGauge::new(super::count(number(stats))))?;
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
        number: fn(&Stats) -> u64,
    ) -> Result<(), Error> {
        let mut family = Family::counter(encoder, name, help)?;
        for figures in &self.0 {
            let counter = ConstCounter::new(number(&figures.stats));
            family.put(&figures.resource, &counter)?;
        }
        Ok(())
    }
}

/// The numbers of one name.
struct Family<'e>(MetricEncoder<'e>);

impl<'e> Family<'e> {
    fn gauge(
        encoder: &'e mut DescriptorEncoder<'_>,
        name: &'e str,
        help: &str,
    ) -> Result<Self, Error> {
        Family::new(encoder, name, help, MetricType::Gauge)
    }

    fn counter(
        encoder: &'e mut DescriptorEncoder<'_>,
        name: &'e str,
        help: &str,
    ) -> Result<Self, Error> {
        Family::new(encoder, name, help, MetricType::Counter)
    }

    fn histogram(
        encoder: &'e mut DescriptorEncoder<'_>,
        name: &'e str,
        help: &str,
    ) -> Result<Self, Error> {
        Family::new(encoder, name, help, MetricType::Histogram)
    }

    fn new(
        encoder: &'e mut DescriptorEncoder<'_>,
        name: &'e str,
        help: &str,
        kind: MetricType,
    ) -> Result<Self, Error> {
        Ok(Family(encoder.encode_descriptor(name, help, None, kind)?))
    }

    fn put(
        &mut self,
        labels: &impl EncodeLabelSet,
        metric: &impl EncodeMetric,
    ) -> Result<(), Error> {
        metric.encode(self.0.encode_family(labels)?)
    }

    /// Sizes are shown in other units: so many of them are one.
    fn put_distribution(
        &mut self,
        labels: &impl EncodeLabelSet,
        distribution: &Distribution,
        unit: f64,
    ) -> Result<(), Error> {
        let buckets = distribution.buckets.iter();
        let mut buckets: Vec<_> = buckets
            .map(|(bound, count)| (*bound as f64 / unit, *count))
            .collect();
        let within: u64 = buckets.iter().map(|(_, count)| count).sum();
        buckets.push((f64::MAX, distribution.count - within));
        let sum = distribution.sum as f64 / unit;
        self.0
            .encode_family(labels)?
            .encode_histogram::<NoLabelSet>(sum, distribution.count, &buckets, None)
    }
}
