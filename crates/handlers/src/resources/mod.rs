//! The verbs on resources (upstream: `endpoints/handlers`).
//!
//! Entry point: `ResourceRequest::dispatch` in `resource_request.rs`, which calls one file per verb (`get`, `list`,
//! `watch`, `create`, ..). `codec.rs` decodes request bodies and `render.rs` encodes responses; objects are read and
//! written through the crate `registry`.

mod codec;
mod create;
mod decode_failure;
mod delete;
mod disabled_fields;
mod field_selector;
mod get;
mod kept_spec;
mod list;
mod patch;
mod propagation;
mod protobuf;
mod render;
mod resource_request;
mod review;
mod subresource;
mod update;
mod watch;

pub use resource_request::ResourceRequest;
pub use subresource::DisruptionBudgetIndex;
pub use watch::{WatchStream, open_watch};
