//! What a request asks for: read from its method, path, query and headers, before anything is done.

mod accept;
mod info;
mod options;
mod query;

pub use accept::{ALL_FORMS, Accept, Form, MEDIA_NAMES, Media, STREAM_NAMES, is_acceptable};
pub use info::{ApiPath, RequestInfo, Target};
pub use options::{
    DeleteOptions, FieldValidation, ListOptions, Propagation, VersionMatch, WriteOptions,
};
pub use query::{Query, decode_path};
