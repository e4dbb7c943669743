//! What the server counts, for Prometheus; names and labels are upstream's where upstream has them.

mod caches;
mod features;
mod process;
mod requests;
mod watches;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use http::StatusCode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry as Exposition;

use caches::Caches;
pub use requests::{Requests, Series};

use crate::Api;
use crate::audit::AuditLog;
use crate::http::{Body, Reply};
use crate::server::InFlight;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Something beside the server, in the same process, that counts on its own.
pub trait Beside: fmt::Debug + Send + Sync {
    /// Adds what it counts, without an end.
    fn write(&self, text: &mut String) -> fmt::Result;
}

/// Everything that is counted.
#[derive(Debug)]
pub struct Metrics {
    exposition: Exposition,
    beside: Vec<Arc<dyn Beside>>,
    pub requests: Requests,
    pub connections: Gauge,
    pub connections_max: Gauge,
    pub tls_handshake_errors: Counter,
    inflight: Family<RequestKind, Gauge>,
    inflight_max: Family<RequestKind, Gauge>,
    objects: Family<GroupResource, Gauge>,
    watchers: Family<GroupResource, Gauge>,
    cache_bytes: Gauge,
    audit_events: Counter,
    audit_dropped: Counter,
    features: features::Features,
    process: process::Process,
    watches: watches::Watches,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestKind {
    request_kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct GroupResource {
    group: String,
    resource: String,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut exposition = Exposition::default();
        let requests = Requests::register(&mut exposition);
        let features = features::Features::register(&mut exposition);
        let process = process::Process::register(&mut exposition);
        let watches = watches::Watches::register(&mut exposition);
        let metrics = Metrics {
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
            exposition: Exposition::default(),
            beside: Vec::new(),
        };
        metrics.register_own(&mut exposition);
        Metrics {
            exposition,
            ..metrics
        }
    }
}

impl Metrics {
    fn register_own(&self, exposition: &mut Exposition) {
        exposition.register(
            "apiserver_current_inflight_requests",
            "Requests being handled, by kind",
            self.inflight.clone(),
        );
        exposition.register(
            "rhumb_inflight_requests_max",
            "How many requests may be handled at a time, by kind; 0 is no limit",
            self.inflight_max.clone(),
        );
        exposition.register(
            "rhumb_connections",
            "Open connections",
            self.connections.clone(),
        );
        exposition.register(
            "rhumb_connections_max",
            "How many connections may be open at a time",
            self.connections_max.clone(),
        );
        exposition.register(
            "apiserver_tls_handshake_errors",
            "TLS handshakes that failed",
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
            "Bytes of the JSON of all cached objects",
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

    /// Has what somebody else counts shown with what the server counts.
    pub fn show_beside(&mut self, beside: Arc<dyn Beside>) {
        self.beside.push(beside);
    }

    /// The answer to `/metrics`.
    pub fn answer(&self, api: &Api, inflight: &InFlight, audit: Option<&AuditLog>) -> Reply {
        self.gather(api, inflight, audit);
        let mut text = String::new();
        let mut caches = Exposition::default();
        caches.register_collector(Box::new(Caches::of(api)));
        let encoded = encode_registry(&mut text, &self.exposition)
            .and_then(|()| encode_registry(&mut text, &caches))
            .and_then(|()| encode_registry(&mut text, api.admission.counts().exposition()))
            .and_then(|()| encode_registry(&mut text, api.tills.counts().exposition()))
            .and_then(|()| {
                let mut beside = self.beside.iter();
                beside.try_for_each(|beside| beside.write(&mut text))
            })
            .and_then(|()| encode_eof(&mut text));
        match encoded {
            Ok(()) => Reply::new(StatusCode::OK, CONTENT_TYPE, Body::full(text)),
            Err(error) => Reply::status(&rhumb_meta::Status::internal_error(error)),
        }
    }

    /// What others count is asked for only when somebody looks.
    fn gather(&self, api: &Api, inflight: &InFlight, audit: Option<&AuditLog>) {
        for (request_kind, room) in inflight.rooms() {
            let kind = RequestKind { request_kind };
            self.inflight.get_or_create(&kind).set(count(room.taken()));
            self.inflight_max.get_or_create(&kind).set(count(room.max));
        }
        let mut bytes = 0;
        for resource in api.registry.iter() {
            let Some(storage) = &resource.storage else {
                continue;
            };
            let labels = GroupResource {
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
            set(&self.audit_events, audit.written());
            set(&self.audit_dropped, audit.dropped());
        }
        self.features.gather(&api.gates);
        self.watches.gather(&api.registry);
        self.process.gather();
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A counter that somebody else keeps.
fn set(counter: &Counter<u64, AtomicU64>, value: u64) {
    counter
        .inner()
        .store(value, std::sync::atomic::Ordering::Relaxed);
}
