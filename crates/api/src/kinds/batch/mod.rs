//! The kinds of this group.

mod cron_job;
mod indexes;
mod job;
mod job_spec;
mod job_status;
mod policies;
mod schedule;
#[cfg(test)]
mod tests;
mod time_zone;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![cron_job::kind(), job::kind()]
}
