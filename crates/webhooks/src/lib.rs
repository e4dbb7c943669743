//! HTTPS client for webhook servers: connections, TLS verification and limits.
//!
//! Entry point: [`WebhookClient::post`] sends a JSON body to a [`WebhookTarget`] and returns the response body. The
//! crate does not interpret the bodies and knows nothing about admission, kinds or caches. The caller resolves Services
//! to addresses by implementing [`ServiceResolver`]. Upstream counterpart: `k8s.io/apiserver/pkg/util/webhook`
//! (`ClientManager`).
//!
//! Differences from upstream: redirects are not followed (CVE-2020-8561), the response size is limited, `Retry-After`
//! is ignored, and no proxy is taken from the environment, because a proxy variable meant for something else could send
//! requests that contain whole objects out of the cluster.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod certificate_verification;
mod client;
mod concurrency_limits;
mod connect;
mod error;
mod error_texts;
mod host_resolver;
mod pools;
mod response;
mod target;

pub use client::WebhookClient;
pub use error::WebhookCallError;
pub use response::MAX_RESPONSE_BYTES;
pub use target::{
    ServiceResolver, TargetAddress, TargetService, WebhookTarget, WebhookTargetError,
};
