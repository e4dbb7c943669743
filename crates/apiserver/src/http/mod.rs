//! The edge: bodies, answers, connections.

mod body;
pub mod generic;
mod gzip;
mod read;
mod reply;

pub use body::{Body, Chunks};
pub use gzip::{accepts_gzip, compress_if_long};
pub use read::{BODY_BYTES_MAX, read_body};
pub use reply::{Logged, Reply, protobuf_status};
