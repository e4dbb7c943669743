//! Request metrics: count, duration, response size. Series are created once and then found by the hash of borrowed
//! labels, without allocating. Only names that the server serves become labels, so that clients cannot create series
//! without bound.

use parking_lot::RwLock;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry as Exposition;

use rhumb_handlers::request::{QueryParameters, RequestInfo, ResourcePath};
use rhumb_registry::ResourceTable;

const DURATION_BUCKETS: [f64; 24] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0,
];

/// Label value for names that the server does not serve.
const OTHER: &str = "other";

/// First path segments of non-resource requests that get a label value of their own.
const KNOWN_PATH_PREFIXES: [&str; 10] = [
    "api",
    "apis",
    "healthz",
    "livez",
    "metrics",
    "openapi",
    "openid",
    "readyz",
    "version",
    ".well-known",
];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    component: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DryRunLabels {
    dry_run: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DryRunAndCodeLabels {
    dry_run: &'static str,
    code: u16,
}

type HistogramFamily<L> = Family<L, Histogram, fn() -> Histogram>;

/// Metrics of all requests.
#[derive(Debug)]
pub struct RequestMetrics {
    total: Family<(RequestLabels, DryRunAndCodeLabels), Counter>,
    durations: HistogramFamily<(RequestLabels, DryRunLabels)>,
    sizes: HistogramFamily<RequestLabels>,
    long_running: Family<RequestLabels, Gauge>,
    series_by_hash: RwLock<HashMap<u64, Arc<RequestSeries>>>,
    hasher: RandomState,
}

/// Metrics of requests with the same labels.
#[derive(Debug)]
pub struct RequestSeries {
    labels: RequestLabels,
    dry_run: &'static str,
    total: Family<(RequestLabels, DryRunAndCodeLabels), Counter>,
    by_code: RwLock<Vec<(u16, Counter)>>,
    duration: Histogram,
    size: Histogram,
    pub long_running: Gauge,
}

/// The labels of a request, borrowed from it.
#[derive(Hash)]
struct BorrowedRequestLabels<'a> {
    verb: &'static str,
    group: &'a str,
    version: &'a str,
    resource: &'a str,
    subresource: &'a str,
    scope: &'static str,
    dry_run: &'static str,
}

impl RequestMetrics {
    pub(super) fn register(exposition: &mut Exposition) -> RequestMetrics {
        let requests = RequestMetrics {
            total: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATION_BUCKETS)),
            sizes: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(1000.0, 10.0, 7))
            }),
            long_running: Family::default(),
            series_by_hash: RwLock::default(),
            hasher: RandomState::new(),
        };
        exposition.register(
            "apiserver_request",
            "Requests, by verb, resource, dry run and response code",
            requests.total.clone(),
        );
        exposition.register(
            "apiserver_request_duration_seconds",
            "Duration of requests",
            requests.durations.clone(),
        );
        exposition.register(
            "apiserver_response_sizes",
            "Size of responses in bytes",
            requests.sizes.clone(),
        );
        exposition.register(
            "apiserver_longrunning_requests",
            "Open watches and other long-running requests",
            requests.long_running.clone(),
        );
        requests
    }

    /// The series of a request.
    pub fn series(
        &self,
        info: &RequestInfo,
        query: &QueryParameters,
        registry: &ResourceTable,
    ) -> Arc<RequestSeries> {
        let names = BorrowedRequestLabels::new(info, query);
        if let Some(series) = self.find(&names) {
            return series;
        }
        let names = names.with_known_names(info.resource_path.as_ref(), registry);
        self.find(&names).unwrap_or_else(|| self.add(&names))
    }

    fn find(&self, names: &BorrowedRequestLabels<'_>) -> Option<Arc<RequestSeries>> {
        let existing = self.series_by_hash.read();
        let series = existing.get(&self.hasher.hash_one(names))?;
        names.matches(series).then(|| series.clone())
    }

    fn add(&self, names: &BorrowedRequestLabels<'_>) -> Arc<RequestSeries> {
        let labels = names.labels();
        let dry_run = names.dry_run;
        let series = Arc::new(RequestSeries {
            total: self.total.clone(),
            by_code: RwLock::default(),
            duration: self
                .durations
                .get_or_create_owned(&(labels.clone(), DryRunLabels { dry_run })),
            size: self.sizes.get_or_create_owned(&labels),
            long_running: self.long_running.get_or_create_owned(&labels),
            labels,
            dry_run,
        });
        self.series_by_hash
            .write()
            .insert(self.hasher.hash_one(names), series.clone());
        series
    }
}

impl RequestSeries {
    /// Records a completed request.
    pub fn record(&self, code: u16, elapsed: Duration, bytes: Option<u64>) {
        self.count_code(code);
        self.duration.observe(elapsed.as_secs_f64());
        if let Some(bytes) = bytes {
            self.size.observe(bytes as f64);
        }
    }

    fn count_code(&self, code: u16) {
        let counters = self.by_code.read();
        if let Some((_, counter)) = counters.iter().find(|(counters, _)| *counters == code) {
            counter.inc();
            return;
        }
        drop(counters);
        let dry_run = self.dry_run;
        let counter = self
            .total
            .get_or_create_owned(&(self.labels.clone(), DryRunAndCodeLabels { dry_run, code }));
        counter.inc();
        let mut counters = self.by_code.write();
        if !counters.iter().any(|(other, _)| *other == code) {
            counters.push((code, counter));
        }
    }
}

impl<'a> BorrowedRequestLabels<'a> {
    fn new(info: &'a RequestInfo, query: &QueryParameters) -> BorrowedRequestLabels<'a> {
        let dry_run = match query.get("dryRun") {
            None | Some("") => "",
            Some("All") => "All",
            Some(_) => "invalid",
        };
        let Some(target) = &info.resource_path else {
            return BorrowedRequestLabels {
                verb: verb(info.verb),
                group: "",
                version: "",
                resource: "",
                subresource: path_prefix(&info.path),
                scope: "",
                dry_run,
            };
        };
        BorrowedRequestLabels {
            verb: verb(info.verb),
            group: &target.group,
            version: &target.version,
            resource: &target.resource,
            subresource: target.subresource.as_deref().unwrap_or_default(),
            scope: scope(info.verb, target),
            dry_run,
        }
    }

    /// Replaces names that the server does not serve by `other`.
    fn with_known_names(
        self,
        target: Option<&ResourcePath>,
        registry: &ResourceTable,
    ) -> BorrowedRequestLabels<'a> {
        let Some(target) = target else {
            return self;
        };
        let is_known = registry
            .find(&target.group, &target.resource)
            .is_some_and(|resource| {
                resource.version(&target.version).is_some()
                    && (self.subresource.is_empty()
                        || resource
                            .kind
                            .subresources
                            .iter()
                            .any(|it| it.name == self.subresource))
            });
        if is_known {
            return self;
        }
        BorrowedRequestLabels {
            group: "",
            version: "",
            resource: OTHER,
            subresource: "",
            ..self
        }
    }

    fn matches(&self, series: &RequestSeries) -> bool {
        let labels = &series.labels;
        self.verb == labels.verb
            && self.group == labels.group
            && self.version == labels.version
            && self.resource == labels.resource
            && self.subresource == labels.subresource
            && self.scope == labels.scope
            && self.dry_run == series.dry_run
    }

    fn labels(&self) -> RequestLabels {
        RequestLabels {
            verb: self.verb,
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            resource: self.resource.to_owned(),
            subresource: self.subresource.to_owned(),
            scope: self.scope,
            component: "apiserver",
        }
    }
}

/// As upstream, a creation is about one object, as is a request by name.
fn scope(verb: &str, target: &ResourcePath) -> &'static str {
    match (&target.name, &target.namespace) {
        _ if verb == "create" => "resource",
        (Some(_), _) => "resource",
        (None, Some(_)) => "namespace",
        (None, None) => "cluster",
    }
}

fn verb(verb: &str) -> &'static str {
    match verb {
        "get" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" | "post" => "POST",
        "update" | "put" => "PUT",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        "head" => "HEAD",
        "options" => "OPTIONS",
        _ => OTHER,
    }
}

fn path_prefix(path: &str) -> &'static str {
    let first = path.trim_start_matches('/').split('/').next();
    match first {
        None | Some("") => "",
        Some(first) => KNOWN_PATH_PREFIXES
            .into_iter()
            .find(|prefix| *prefix == first)
            .unwrap_or(OTHER),
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn scopes_are_those_of_upstream() {
        for (method, path, expect) in [
            (Method::GET, "/api/v1/pods", "cluster"),
            (Method::GET, "/api/v1/namespaces", "cluster"),
            (Method::GET, "/api/v1/namespaces/a/pods", "namespace"),
            (Method::DELETE, "/api/v1/namespaces/a/pods", "namespace"),
            (Method::GET, "/api/v1/namespaces/a/pods/p", "resource"),
            (
                Method::PUT,
                "/api/v1/namespaces/a/pods/p/status",
                "resource",
            ),
            (Method::GET, "/api/v1/namespaces/a", "resource"),
            (Method::PATCH, "/api/v1/nodes/n", "resource"),
            (Method::POST, "/api/v1/namespaces/a/pods", "resource"),
            (Method::POST, "/api/v1/namespaces", "resource"),
            (
                Method::POST,
                "/api/v1/namespaces/a/pods/p/eviction",
                "resource",
            ),
            // The selected name counts for authorization only.
            (
                Method::GET,
                "/api/v1/nodes?fieldSelector=metadata.name=n",
                "cluster",
            ),
            (Method::GET, "/healthz", ""),
        ] {
            let (path, query) = path.split_once('?').unwrap_or((path, ""));
            let query = QueryParameters::parse(query).unwrap();
            let info = RequestInfo::new(&method, path, &query);
            let labels = BorrowedRequestLabels::new(&info, &query);
            assert_eq!(labels.scope, expect, "{method} {path}");
        }
    }

    #[test]
    fn unknown_names_do_not_create_label_values() {
        let mut exposition = Exposition::default();
        let requests = RequestMetrics::register(&mut exposition);
        let registry = ResourceTable::default();
        for number in 0..1000 {
            for path in [
                format!("/apis/g{number}/v1/things"),
                format!("/p{number}"),
                format!("/api/v1/namespaces/n{number}/x{number}/y/z"),
            ] {
                let query = QueryParameters::parse(&format!("dryRun={number}")).unwrap();
                let info = RequestInfo::new(&Method::GET, &path, &query);
                requests
                    .series(&info, &query, &registry)
                    .record(404, Duration::ZERO, None);
            }
        }
        assert_eq!(requests.series_by_hash.read().len(), 3);
        let mut text = String::new();
        encode(&mut text, &exposition).unwrap();
        assert!(
            text.contains(
                "apiserver_request_total{verb=\"LIST\",group=\"\",version=\"\",resource=\"other\",\
             subresource=\"\",scope=\"cluster\",component=\"apiserver\",dry_run=\"invalid\",\
             code=\"404\"} 1000"
            ),
            "{text}"
        );
    }
}
