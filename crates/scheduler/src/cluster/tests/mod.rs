//! What is kept up to date is what a fresh build would have, whatever happened before; and whoever can go somewhere
//! since something happened is told.

mod changes;
mod happened;
mod state;
mod telling;
