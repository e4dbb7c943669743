//! Tests all plugins against an oracle, on random clusters and on documented examples.

mod documented_affinity;
mod oracle;
pub(crate) mod oracle_agreement;
pub(crate) mod random;
