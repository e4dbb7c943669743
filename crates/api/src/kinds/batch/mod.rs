//! The kinds of this group.

mod cron_job;
mod job;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![cron_job::kind(), job::kind()]
}
