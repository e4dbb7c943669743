//! Compares rhumb with upstream: `cargo xtask interop`.
//!
//! [`servers`] starts kube-apiserver or rhumb as a [`servers::TestServer`], accessed through its kubeconfig.
//! [`differential`] sends the same requests to both and compares the responses field by field. [`scheduling`] compares
//! rhumb's scheduler with kube-scheduler, and [`match_conditions`] compares exclusion rules with compiled match
//! conditions. The suites under `tests/` compare libraries, and run kubectl with the transcripts of [`transcript`].

pub mod client;
pub mod comparison;
pub mod differential;
pub mod kubeconfig;
pub mod match_conditions;
pub mod random_objects;
pub mod scheduling;
pub mod servers;
pub mod transcript;
