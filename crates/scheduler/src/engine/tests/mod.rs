//! Tests that apply events to a `SchedulerCore` and check the outcomes.

mod harness;
mod held_pods;
mod hint_counter;
mod nominations;
mod preemption;
mod queue;
mod queueing_hints;
mod random_events;
