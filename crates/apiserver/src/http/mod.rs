//! The edge: bodies, answers, connections.

mod body;
mod read;
mod reply;

pub use body::{Body, Chunks};
pub use read::{BODY_BYTES_MAX, read_body};
pub use reply::{Reply, protobuf_status};
