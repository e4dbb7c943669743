//! JSON as Go reads it: what is malformed, and in which words that is said.

mod plain;
mod reader;
mod syntax;
mod unquote;

pub(crate) use reader::{Malformed, Reader};
pub(crate) use syntax::check;
