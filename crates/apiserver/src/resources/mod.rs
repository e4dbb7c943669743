//! The verbs on resources (upstream: `endpoints/handlers` and `registry/generic/registry`).
//!
//! Entry point: `ResourceRequest::dispatch` in `resource_request.rs`, which calls one file per verb (`get`, `list`,
//! `watch`, `create`, ..). `codec.rs` decodes request bodies, `version_conversion.rs` applies defaults and converts,
//! `write/` is the path of every change to the store, and `render.rs` encodes responses.

pub mod allocation;
mod allocator;
mod codec;
mod create;
mod decode_failure;
mod delete;
pub mod equivalent_resources;
mod error_status;
mod get;
mod list;
mod patch;
mod propagation;
mod protobuf;
mod render;
mod request_context;
mod resource_request;
mod resource_table;
mod review;
mod subresource;
mod update;
mod version_conversion;
mod watch;
mod watch_event_counters;
pub(crate) mod write;

#[cfg(test)]
mod tests;

pub use allocator::{AllocationHold, AllocatorSet, PendingAllocations, ResourceAllocator};
pub(crate) use create::generate_name;
pub use equivalent_resources::EquivalentResources;
pub(crate) use error_status::{history_error_status, shutting_down_status, store_error_status};
pub(crate) use patch::{JsonPatch, JsonPatchError};
pub use request_context::{RequestContext, RequestOptions, RequestOrigin};
pub use resource_request::ResourceRequest;
pub use resource_table::{
    RegistryError, Resource, ResourceStorage, ResourceTable, ServedVersion, storage_versions,
    stored_object_decoder,
};
pub(crate) use watch::{WatchStream, open_watch};
pub use watch_event_counters::{EVENT_SIZE_BUCKETS, WatchEventCounters, WatchEventTotals};
pub(crate) use write::with_operations;
