//! `rhumb up` as clients meet it: the built program, over real connections.

#[path = "../program/mod.rs"]
mod program;

mod audit;
mod authorization;
mod edge;
mod explain;
mod hostile;
mod label_index;
mod lifecycle;
mod start;
mod support;
