//! Validation helpers shared by the workload, admission, autoscaling, certificates and other groups.

pub(crate) mod checks;
pub(crate) mod conditions;
pub(crate) mod pem;
pub(crate) mod template;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod webhook;
