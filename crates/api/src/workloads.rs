//! What the rules of workloads, admission configurations and their neighbours share.

pub(crate) mod checks;
pub(crate) mod conditions;
pub(crate) mod pem;
pub(crate) mod template;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod url;
pub(crate) mod webhook;
