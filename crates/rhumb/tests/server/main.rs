//! Tests of `rhumb up`: the built program, over real connections.

#[path = "../exposition/mod.rs"]
mod exposition;
#[path = "../program/metric_value.rs"]
mod metric_value;
#[path = "../program/mod.rs"]
mod program;

mod admission_compile;
mod audit;
mod authorization;
mod connection_limits;
mod explain;
mod explain_connect;
mod health;
mod label_index;
mod lifecycle;
mod malformed_requests;
mod metrics;
mod negotiation;
mod request_timeout;
mod start_failures;
mod support;
