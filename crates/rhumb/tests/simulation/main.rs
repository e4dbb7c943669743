//! Tests of simulated nodes of `rhumb up --nodes` and `rhumb simulate-nodes`, with a client over TLS.

#[path = "../kube_rs/make.rs"]
#[allow(dead_code)]
mod make;
#[path = "../program/mod.rs"]
#[allow(dead_code)]
mod program;
#[path = "../kube_rs/support.rs"]
#[allow(dead_code)]
mod support;
#[path = "../controllers/waiting.rs"]
#[allow(dead_code)]
mod waiting;

mod nodes;
mod pods;
mod templates;
