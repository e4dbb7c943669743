//! The kinds of this group.

mod controller_revision;
mod daemon_set;
mod deployment;
mod replica_set;
mod stateful_set;
mod template;
#[cfg(test)]
mod tests;

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
