//! Prometheus metrics of the API server. Names and labels are upstream's where upstream has the metric.
//! Entry point: [`ServerMetrics::serve`], which serves `/metrics`.

mod caches;
mod features;
mod process;
mod requests;
mod watches;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use http::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry as Exposition;

use caches::WatchCacheCollector;
pub use requests::{RequestMetrics, RequestSeries};

use crate::InFlightLimits;
use crate::audit::AuditLog;
use rhumb_handlers::http::{Reply, ResponseBody};
use rhumb_handlers::{MetricsSource, ServerState};

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of the server.
#[derive(Debug)]
pub struct ServerMetrics {
    registry: Exposition,
    extra_sources: Vec<Arc<dyn MetricsSource>>,
    pub requests: RequestMetrics,
    pub connections: Gauge,
    pub connections_max: Gauge,
    pub tls_handshake_errors: Counter,
    inflight: Family<RequestKindLabels, Gauge>,
    inflight_max: Family<RequestKindLabels, Gauge>,
    objects: Family<GroupResourceLabels, Gauge>,
    watchers: Family<GroupResourceLabels, Gauge>,
    cache_bytes: Gauge,
    audit_events: Counter,
    audit_dropped: Counter,
    features: features::FeatureGateMetrics,
    process: process::ProcessMetrics,
    watches: watches::WatchEventMetrics,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestKindLabels {
    request_kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct GroupResourceLabels {
    group: String,
    resource: String,
}

impl Default for ServerMetrics {
    fn default() -> Self {
        let mut exposition = Exposition::default();
        let requests = RequestMetrics::register(&mut exposition);
        let features = features::FeatureGateMetrics::register(&mut exposition);
        let process = process::ProcessMetrics::register(&mut exposition);
        let watches = watches::WatchEventMetrics::register(&mut exposition);
        let metrics = ServerMetrics {
            requests,
            features,
            process,
            watches,
            connections: Gauge::default(),
            connections_max: Gauge::default(),
            tls_handshake_errors: Counter::default(),
            inflight: Family::default(),
            inflight_max: Family::default(),
            objects: Family::default(),
            watchers: Family::default(),
            cache_bytes: Gauge::default(),
            audit_events: Counter::default(),
            audit_dropped: Counter::default(),
            registry: Exposition::default(),
            extra_sources: Vec::new(),
        };
        metrics.register_own(&mut exposition);
        ServerMetrics {
            registry: exposition,
            ..metrics
        }
    }
}

impl ServerMetrics {
    fn register_own(&self, exposition: &mut Exposition) {
        exposition.register(
            "apiserver_current_inflight_requests",
            "Requests in flight, by kind",
            self.inflight.clone(),
        );
        exposition.register(
            "rhumb_inflight_requests_max",
            "Limit on requests in flight, by kind; 0 is unlimited",
            self.inflight_max.clone(),
        );
        exposition.register(
            "rhumb_connections",
            "Open connections",
            self.connections.clone(),
        );
        exposition.register(
            "rhumb_connections_max",
            "Limit on open connections",
            self.connections_max.clone(),
        );
        exposition.register(
            "apiserver_tls_handshake_errors",
            "Failed TLS handshakes",
            self.tls_handshake_errors.clone(),
        );
        exposition.register(
            "apiserver_storage_objects",
            "Objects stored, by resource",
            self.objects.clone(),
        );
        exposition.register(
            "rhumb_watchers",
            "Open watches, by resource",
            self.watchers.clone(),
        );
        exposition.register(
            "rhumb_cache_bytes",
            "JSON bytes of all cached objects",
            self.cache_bytes.clone(),
        );
        exposition.register(
            "apiserver_audit_event",
            "Audit events written",
            self.audit_events.clone(),
        );
        exposition.register(
            "apiserver_audit_error",
            "Audit events dropped",
            self.audit_dropped.clone(),
        );
    }

    /// Adds the metrics of another component to `/metrics`.
    pub fn add_source(&mut self, source: Arc<dyn MetricsSource>) {
        self.extra_sources.push(source);
    }

    /// Serves `/metrics`.
    pub fn serve(
        &self,
        state: &ServerState,
        inflight: &InFlightLimits,
        audit: Option<&AuditLog>,
    ) -> Reply {
        self.gather(state, inflight, audit);
        let mut text = String::new();
        let mut caches = Exposition::default();
        caches.register_collector(Box::new(WatchCacheCollector::collect(state)));
        let encoded = encode_registry(&mut text, &self.registry)
            .and_then(|()| encode_registry(&mut text, &caches))
            .and_then(|()| {
                let mut sources = state.metrics_sources.iter().chain(&self.extra_sources);
                sources.try_for_each(|source| source.encode(&mut text))
            })
            .and_then(|()| encode_eof(&mut text));
        match encoded {
            Ok(()) => Reply::new(StatusCode::OK, CONTENT_TYPE, ResponseBody::full(text)),
            Err(error) => Reply::status(&rhumb_meta::Status::internal_error(error)),
        }
    }

    /// Updates the metrics that are read from other components at scrape time.
    fn gather(&self, state: &ServerState, inflight: &InFlightLimits, audit: Option<&AuditLog>) {
        for (request_kind, limit) in inflight.limits() {
            let kind = RequestKindLabels { request_kind };
            self.inflight
                .get_or_create(&kind)
                .set(count(limit.in_use()));
            self.inflight_max.get_or_create(&kind).set(count(limit.max));
        }
        let mut bytes = 0;
        for resource in state.registry.resources().iter() {
            let Some(storage) = &resource.storage else {
                continue;
            };
            let labels = GroupResourceLabels {
                group: resource.kind.group.to_string(),
                resource: resource.kind.plural.to_string(),
            };
            let stats = storage.cache.stats();
            bytes += stats.bytes;
            self.objects
                .get_or_create(&labels)
                .set(count(stats.objects));
            self.watchers
                .get_or_create(&labels)
                .set(count(stats.watchers));
        }
        self.cache_bytes.set(count(bytes));
        if let Some(audit) = audit {
            set_counter(&self.audit_events, audit.written());
            set_counter(&self.audit_dropped, audit.dropped());
        }
        self.features.gather(&state.registry.gates);
        self.watches.gather(&state.registry.resources());
        self.process.gather();
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Sets a counter whose value is maintained elsewhere.
fn set_counter(counter: &Counter<u64, AtomicU64>, value: u64) {
    counter
        .inner()
        .store(value, std::sync::atomic::Ordering::Relaxed);
}
