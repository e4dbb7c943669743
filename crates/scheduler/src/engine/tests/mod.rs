//! Scripts of what happens, and what the engine decides.

mod asked;
mod events;
mod hold;
mod nominated;
mod preemption;
mod queue;
mod random;
mod run;
