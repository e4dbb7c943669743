//! HTTP responses and bodies: reading request bodies, building and compressing responses.

mod body;
mod connection_activity;
pub mod generic_status;
mod gzip;
mod reply;
mod request_body;

pub use body::{BodyChunks, ResponseBody};
pub use connection_activity::{ActiveRequest, ConnectionActivity};
pub use gzip::{accepts_gzip, compress_if_long};
pub use reply::{AuditedBody, Reply, protobuf_status};
pub use request_body::{BODY_BYTES_MAX, read_body};
