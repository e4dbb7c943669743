//! Parsing of requests: method, path, query, options and Accept header, before authorization and dispatch.

mod accept;
mod info;
mod options;
mod query;

pub use accept::{
    ALL_REPRESENTATIONS, MEDIA_TYPE_NAMES, MediaType, NegotiatedAccept, ObjectRepresentation,
    STREAM_MEDIA_TYPE_NAMES, accepts_any_media_type,
};
pub use info::{DiscoveryPath, RequestInfo, ResourcePath};
pub use options::{
    FieldValidation, ListOptions, ResourceVersionMatch, WriteOptions, parse_delete_options,
};
pub use query::{QueryParameters, decode_path};
