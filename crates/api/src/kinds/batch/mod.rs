//! Built-in kinds of API group `batch`, one module each.

mod completion_indexes;
mod cron_job;
mod cron_schedule;
mod job;
mod job_policies;
mod job_spec;
mod job_status;
#[cfg(test)]
mod tests;
mod time_zone;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![cron_job::kind(), job::kind()]
}
