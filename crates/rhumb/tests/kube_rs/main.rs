//! rhumb as programs use it: kube-rs, over TLS, against the built binary.

#[path = "../support/mod.rs"]
mod support;

mod access;
mod durability;
mod examples;
mod linear;
mod make;
mod objects;
mod patches;
mod reading;
mod subresources;
mod watching;
