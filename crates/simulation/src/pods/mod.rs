//! The life of a pod on a simulated node. Pure: what comes next, and when, follows from the pod and the time.

pub(crate) mod facts;
pub(crate) mod life;
pub(crate) mod status;

#[cfg(test)]
mod testing;
