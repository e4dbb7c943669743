//! Tests of the scheduler of `rhumb up` and `rhumb scheduler`, with a client over TLS.

#[path = "../exposition/mod.rs"]
mod exposition;
#[path = "../kube_rs/make.rs"]
#[allow(dead_code)]
mod make;
#[path = "../program/mod.rs"]
#[allow(dead_code)]
mod program;
#[path = "../kube_rs/support.rs"]
#[allow(dead_code)]
mod support;

mod cluster;
mod embedded;
mod events;
mod explain;
mod flags;
mod leader_election;
mod listener;
mod scheduling;
