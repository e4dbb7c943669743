//! Lifecycle of a simulated pod, as a pure function of the pod object and the time. No I/O.

pub(crate) mod lifecycle;
pub(crate) mod observed_pod;
pub(crate) mod status;

#[cfg(test)]
mod testing;
