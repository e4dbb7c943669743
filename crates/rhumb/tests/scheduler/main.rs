//! What the scheduler of `rhumb up` and `rhumb scheduler` do, seen by a client over TLS.

#[path = "../kube_rs/make.rs"]
#[allow(dead_code)]
mod make;
#[path = "../program/mod.rs"]
#[allow(dead_code)]
mod program;
#[path = "../kube_rs/support.rs"]
#[allow(dead_code)]
mod support;

mod apart;
mod cluster;
mod explain;
mod flags;
mod inside;
mod listener;
mod placing;
