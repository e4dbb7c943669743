//! What the controllers of `rhumb up` do, as clients see it: kube-rs, over TLS, against the built binary.

#[path = "../program/mod.rs"]
#[allow(dead_code, reason = "each test binary uses its own part of it")]
mod program;

mod cluster;
mod garbage;
