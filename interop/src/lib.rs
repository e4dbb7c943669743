//! rhumb beside the real thing: `cargo xtask interop`.
//!
//! [`servers`] starts a real kube-apiserver or rhumb, both as a [`servers::Server`] that is known by its
//! kubeconfig. [`differential`] asks both the same questions and compares the answers field by field. The
//! suites under `tests/` compare libraries, and drive kubectl through the transcripts of [`transcript`].

pub mod client;
pub mod differential;
pub mod kubeconfig;
pub mod make;
pub mod scheduling;
pub mod servers;
pub mod transcript;
