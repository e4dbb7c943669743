//! Tests of `rhumb netpol`, on files and on a running server.

#[path = "../program/mod.rs"]
#[allow(dead_code)]
mod program;
#[path = "../kube_rs/support.rs"]
#[allow(dead_code)]
mod support;

mod check;
mod command;
mod example;
mod input;
mod matrix;
mod picture;
mod server;
