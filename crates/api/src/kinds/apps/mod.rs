//! Built-in kinds of API group `apps`, one module each.

mod controller_revision;
mod daemon_set;
mod deployment;
mod replica_set;
mod stateful_set;
#[cfg(test)]
mod tests;
mod workload_validation;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![
        controller_revision::kind(),
        daemon_set::kind(),
        deployment::kind(),
        replica_set::kind(),
        stateful_set::kind(),
    ]
}
