//! The protobuf form of objects: the wire of `application/vnd.kubernetes.protobuf`.
//!
//! The table knows every field's number, so one reader and one writer serve all types. What is written is what
//! upstream's generated code writes, byte for byte; what is read becomes the object that JSON would have given,
//! where a zero value that is not a pointer is absent.

mod envelope;
mod message;
mod read;
mod special;
mod wire;
mod write;

pub use envelope::{Envelope, MAGIC, watch_frame};
pub(crate) use message::Message;
pub use read::{decode, decode_strictly};
pub use write::{EncodeError, encode, list_head, list_item, seal};

/// The type of the object that says how a request ended.
pub const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

#[cfg(test)]
mod tests;
