//! Clients of an API server: in the same process (no socket, no TLS, caller given), or over HTTPS with a kubeconfig.

mod https;
mod in_process;
mod multiplexed;

pub(crate) use https::{connect as over_https, read_kubeconfig};
pub(crate) use in_process::InProcessClientFactory;
