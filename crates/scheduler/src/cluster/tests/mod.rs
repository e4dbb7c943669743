//! Randomised tests: the incrementally updated state equals a rebuilt one, and every change that makes a pending pod
//! schedulable is reported by a queueing hint.

mod owned_events;
mod queueing_hints;
mod random_changes;
mod state_dump;
