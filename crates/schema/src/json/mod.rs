//! JSON as Go reads it: what is malformed, and in which words that is said.

mod plain;
mod reader;
mod skip;
mod syntax;
mod unquote;
mod write;

pub use reader::{Malformed, Reader};
pub(crate) use syntax::check;
pub use write::{write, write_field};
pub(crate) use write::{write_object, write_text};
