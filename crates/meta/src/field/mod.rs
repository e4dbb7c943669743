//! Which field of an object is wrong, and how: paths, errors and lists of errors, in upstream's words.

mod error;
mod list;
mod path;

pub use error::{BadValue, Body, Error, ErrorType};
pub use list::ErrorList;
pub use path::Path;
