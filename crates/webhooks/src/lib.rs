//! Calls to webhook servers over HTTPS: connections, TLS and limits.
//!
//! A [`Client`] posts a body to a [`Target`] and gives back the body of the answer. What is said in them is the
//! caller's: this crate knows no admission, no kinds and no caches. Where a service is, the caller says too, by
//! its [`Resolver`].
//!
//! What upstream does and this does not: redirects are not followed (CVE-2020-8561), the size of an answer is
//! limited, `Retry-After` is not waited for, and no proxy is taken from the environment, so that a variable meant
//! for something else cannot lead requests with whole objects in them out of the cluster.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod answer;
mod client;
mod connect;
mod error;
mod lookups;
mod pools;
mod shares;
mod target;
mod texts;
mod trust;

pub use answer::MAX_ANSWER_BYTES;
pub use client::Client;
pub use error::CallError;
pub use target::{Address, Resolver, Service, Target, TargetError};
