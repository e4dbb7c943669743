//! Admission webhooks end to end: the built program, and a webhook server over TLS.

#[path = "../program/metric_value.rs"]
mod metric_value;
#[path = "../program/mod.rs"]
#[allow(dead_code)]
mod program;
#[path = "../server/support.rs"]
#[allow(dead_code)]
mod support;

mod answers;
mod certificates;
mod cluster;
mod connect;
mod dispatch;
mod exclusions;
mod failures;
mod matching;
mod mutation;
mod webhook;
mod webhook_builder;
