//! How clients reach an API server: in the same process, where the caller is known and nothing is encrypted, or over HTTPS.

mod https;
mod in_process;
mod multiplexed;

pub(crate) use https::connect as over_https;
pub(crate) use in_process::InProcess;
