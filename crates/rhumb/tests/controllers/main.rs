//! What the controllers of `rhumb up` do, as clients see it: kube-rs, over TLS, against the built binary.

#[path = "../program/mod.rs"]
mod program;

mod cluster;
mod garbage;
