//! The verbs on resources. Each file is one verb; `call.rs` is what they share of a request, `codec.rs` how
//! bodies become objects, `prepare.rs` what is done to them and asked of them, `write.rs` how they reach the store.

pub mod allocation;
mod call;
mod codec;
mod companions;
mod create;
mod delete;
mod get;
mod list;
pub mod naming;
mod patch;
mod prepare;
mod propagation;
mod protobuf;
mod registry;
mod render;
mod review;
mod store_status;
mod subresource;
mod update;
mod watch;
mod watch_events;
mod write;

#[cfg(test)]
mod tests;

pub use call::Call;
pub use companions::{Chosen, Claim, CompanionSet, Companions};
pub(crate) use create::generate_name;
pub use naming::Asked;
pub(crate) use patch::{JsonPatch, PatchFailure};
pub use registry::{Registry, RegistryError, Resource, Storage, Version, forms, stored_kinds};
pub(crate) use store_status::{history_status, shutting_down, store_status};
pub(crate) use watch::{Frames, frames};
pub use watch_events::{SIZES, Sent, WatchEvents};
pub(crate) use write::with;
