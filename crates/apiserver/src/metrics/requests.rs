//! Requests: how many, how long, how large. Label sets are made once and then found by hash, without making a
//! string; and only from names that the server knows, so that no client can make them without end.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry as Exposition;

use crate::request::{Query, RequestInfo, Target};
use crate::resources::Registry;

const SECONDS: [f64; 24] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 120.0,
];

/// What is said of anything that the server does not know.
const OTHER: &str = "other";

/// The first parts of paths that are told apart.
const PATHS: [&str; 10] = [
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
struct Labels {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    component: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DryRun {
    dry_run: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DryRunAndCode {
    dry_run: &'static str,
    code: u16,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// The counters of all requests.
#[derive(Debug)]
pub struct Requests {
    total: Family<(Labels, DryRunAndCode), Counter>,
    durations: Histograms<(Labels, DryRun)>,
    sizes: Histograms<Labels>,
    long_running: Family<Labels, Gauge>,
    known: RwLock<HashMap<u64, Arc<Series>>>,
    hasher: RandomState,
}

/// The counters of requests with the same labels.
#[derive(Debug)]
pub struct Series {
    labels: Labels,
    dry_run: &'static str,
    total: Family<(Labels, DryRunAndCode), Counter>,
    by_code: RwLock<Vec<(u16, Counter)>>,
    duration: Histogram,
    size: Histogram,
    pub long_running: Gauge,
}

/// The labels of a request, borrowed from it.
#[derive(Hash)]
struct Names<'a> {
    verb: &'static str,
    group: &'a str,
    version: &'a str,
    resource: &'a str,
    subresource: &'a str,
    scope: &'static str,
    dry_run: &'static str,
}

impl Requests {
    pub(super) fn register(exposition: &mut Exposition) -> Requests {
        let requests = Requests {
            total: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            sizes: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(1000.0, 10.0, 7))
            }),
            long_running: Family::default(),
            known: RwLock::default(),
            hasher: RandomState::new(),
        };
        exposition.register(
            "apiserver_request",
            "Requests, by what was asked and how it ended",
            requests.total.clone(),
        );
        exposition.register(
            "apiserver_request_duration_seconds",
            "How long requests took",
            requests.durations.clone(),
        );
        exposition.register(
            "apiserver_response_sizes",
            "Bytes of answers",
            requests.sizes.clone(),
        );
        exposition.register(
            "apiserver_longrunning_requests",
            "Watches and other requests without an end of their own",
            requests.long_running.clone(),
        );
        requests
    }

    /// The counters for a request.
    pub fn series(&self, info: &RequestInfo, query: &Query, registry: &Registry) -> Arc<Series> {
        let names = Names::of(info, query);
        if let Some(series) = self.find(&names) {
            return series;
        }
        let names = names.bounded(info.target.as_ref(), registry);
        self.find(&names).unwrap_or_else(|| self.add(&names))
    }

    fn find(&self, names: &Names<'_>) -> Option<Arc<Series>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let series = known.get(&self.hasher.hash_one(names))?;
        names.are_of(series).then(|| series.clone())
    }

    fn add(&self, names: &Names<'_>) -> Arc<Series> {
        let labels = names.labels();
        let dry_run = names.dry_run;
        let series = Arc::new(Series {
            total: self.total.clone(),
            by_code: RwLock::default(),
            duration: self
                .durations
                .get_or_create_owned(&(labels.clone(), DryRun { dry_run })),
            size: self.sizes.get_or_create_owned(&labels),
            long_running: self.long_running.get_or_create_owned(&labels),
            labels,
            dry_run,
        });
        self.known
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(self.hasher.hash_one(names), series.clone());
        series
    }
}

impl Series {
    /// Counts a request that has ended.
    pub fn ended(&self, code: u16, took: Duration, bytes: Option<u64>) {
        self.of_code(code);
        self.duration.observe(took.as_secs_f64());
        if let Some(bytes) = bytes {
            self.size.observe(bytes as f64);
        }
    }

    fn of_code(&self, code: u16) {
        let known = self.by_code.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, counter)) = known.iter().find(|(known, _)| *known == code) {
            counter.inc();
            return;
        }
        drop(known);
        let dry_run = self.dry_run;
        let counter = self
            .total
            .get_or_create_owned(&(self.labels.clone(), DryRunAndCode { dry_run, code }));
        counter.inc();
        let mut known = self.by_code.write().unwrap_or_else(PoisonError::into_inner);
        if !known.iter().any(|(other, _)| *other == code) {
            known.push((code, counter));
        }
    }
}

impl<'a> Names<'a> {
    fn of(info: &'a RequestInfo, query: &Query) -> Names<'a> {
        let dry_run = match query.get("dryRun") {
            None | Some("") => "",
            Some("All") => "All",
            Some(_) => "invalid",
        };
        let Some(target) = &info.target else {
            return Names {
                verb: verb(info.verb),
                group: "",
                version: "",
                resource: "",
                subresource: first_part(&info.path),
                scope: "",
                dry_run,
            };
        };
        Names {
            verb: verb(info.verb),
            group: &target.group,
            version: &target.version,
            resource: &target.resource,
            subresource: target.subresource.as_deref().unwrap_or_default(),
            scope: match (&target.name, &target.namespace) {
                (Some(_), _) => "resource",
                (None, Some(_)) => "namespace",
                (None, None) => "cluster",
            },
            dry_run,
        }
    }

    /// Itself, if the server serves what it names.
    fn bounded(self, target: Option<&Target>, registry: &Registry) -> Names<'a> {
        let Some(target) = target else {
            return self;
        };
        let known = registry
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
        if known {
            return self;
        }
        Names {
            group: "",
            version: "",
            resource: OTHER,
            subresource: "",
            ..self
        }
    }

    fn are_of(&self, series: &Series) -> bool {
        let labels = &series.labels;
        self.verb == labels.verb
            && self.group == labels.group
            && self.version == labels.version
            && self.resource == labels.resource
            && self.subresource == labels.subresource
            && self.scope == labels.scope
            && self.dry_run == series.dry_run
    }

    fn labels(&self) -> Labels {
        Labels {
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

fn first_part(path: &str) -> &'static str {
    let first = path.trim_start_matches('/').split('/').next();
    match first {
        None | Some("") => "",
        Some(first) => PATHS
            .into_iter()
            .find(|known| *known == first)
            .unwrap_or(OTHER),
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn clients_cannot_make_labels() {
        let mut exposition = Exposition::default();
        let requests = Requests::register(&mut exposition);
        let registry = Registry::default();
        for number in 0..1000 {
            for path in [
                format!("/apis/g{number}/v1/things"),
                format!("/p{number}"),
                format!("/api/v1/namespaces/n{number}/x{number}/y/z"),
            ] {
                let query = Query::parse(&format!("dryRun={number}")).unwrap();
                let info = RequestInfo::new(&Method::GET, &path, &query);
                requests
                    .series(&info, &query, &registry)
                    .ended(404, Duration::ZERO, None);
            }
        }
        assert_eq!(requests.known.read().unwrap().len(), 3);
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
