//! Built-in kinds of API group `events.k8s.io`, one module each.

mod event;

use crate::Kind;

pub(super) fn kinds() -> Vec<Kind> {
    vec![event::kind()]
}
