//! Tests of `rhumb up`: the built program, over real connections.

#[path = "../exposition/mod.rs"]
mod exposition;
#[path = "../program/mod.rs"]
mod program;

mod admission_compile;
mod audit;
mod authorization;
mod connection_limits;
mod explain;
mod label_index;
mod lifecycle;
mod malformed_requests;
mod metrics;
mod negotiation;
mod start_failures;
mod support;
