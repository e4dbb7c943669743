//! Protobuf encoding of objects (`application/vnd.kubernetes.protobuf`).
//!
//! Entry points: [`encode_with_envelope`], [`UnknownEnvelope::decode`] and [`decode`]. The schema table contains all field
//! numbers, so one decoder and one encoder serve all types. The output is byte for byte that of upstream's generated
//! code. A decoded object equals the object decoded from JSON, without zero values that are not pointers.

mod custom_types;
mod decoder;
mod encoder;
mod envelope;
mod message_layout;
mod wire;

pub use decoder::{decode, decode_strict};
pub use encoder::{
    EncodeError, encode, encode_list_item, encode_list_metadata, encode_with_envelope,
};
pub use envelope::{MAGIC, UnknownEnvelope, watch_frame};
pub(crate) use message_layout::MessageLayout;

/// Schema type of `metav1.Status`.
pub const STATUS_TYPE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

#[cfg(test)]
mod tests;
