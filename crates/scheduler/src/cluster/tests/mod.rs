//! What is kept up to date is what a fresh build would have, whatever happened before.

mod changes;
mod state;
