//! Scripts of what happens, and what the engine decides.

mod events;
mod nominated;
mod preemption;
mod queue;
mod random;
mod run;
