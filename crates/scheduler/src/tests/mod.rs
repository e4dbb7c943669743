//! The scheduler against an oracle, on random clusters and on documented ones.

pub(crate) mod agreement;
mod documented;
mod oracle;
pub(crate) mod random;
