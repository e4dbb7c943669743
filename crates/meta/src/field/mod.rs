//! Field paths and validation errors with upstream's texts (upstream: `util/validation/field`).

mod error;
mod list;
mod path;

pub use error::{BadValue, Error, ErrorType, FieldErrorBody};
pub use list::ErrorList;
pub use path::Path;
