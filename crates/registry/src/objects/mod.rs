//! Objects inside the server: metadata access, storage encoding and decoding, and projection into the watch cache.

mod api_object_projector;
mod decoded_cache;
mod encode;
mod metadata;
mod raw_projector;
mod spec;
mod stored_decoder;

pub use api_object_projector::ApiObjectProjector;
pub use decoded_cache::DecodedObjectCache;
pub use encode::{ObjectEncoder, replace_resource_version};
pub use metadata::{ObjectMetadata, ObjectMetadataMut};
pub use raw_projector::RawProjector;
pub use spec::{SPEC, copy_spec};
pub use stored_decoder::{DecodableVersion, StoredDecoder};
