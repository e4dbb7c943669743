//! Quotas and limit ranges end to end: the built program, concurrent clients, crashes, several servers.

#[path = "../kube_rs/make.rs"]
#[allow(dead_code)]
mod make;
#[path = "../program/metric_value.rs"]
mod metric_value;
#[path = "../program/mod.rs"]
#[allow(dead_code)]
mod program;
#[path = "../kube_rs/requests.rs"]
#[allow(dead_code)]
mod requests;
#[path = "../kube_rs/support.rs"]
#[allow(dead_code)]
mod support;
#[path = "../controllers/waiting.rs"]
#[allow(dead_code)]
mod waiting;
#[path = "../admission/webhook.rs"]
#[allow(dead_code)]
mod webhook;

mod concurrency;
mod crash;
mod cross_namespace;
mod failures;
mod gate;
mod limited;
mod metrics;
mod paths;
mod quota_namespace;
mod ranges;
mod release;
mod status;
mod templates;
