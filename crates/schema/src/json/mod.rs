//! JSON reader, syntax checker and writer, compatible with Go's `encoding/json` including its error messages.

mod reader;
mod skip;
mod special_bytes;
mod syntax;
mod unquote;
mod write;

pub use reader::{JsonReader, MalformedJson};
pub(crate) use syntax::check;
pub use write::{write, write_field};
pub(crate) use write::{write_object, write_text};
