//! From text to a tree.

pub(crate) mod ast;
pub(crate) mod issue;
mod lexer;
mod literal;
mod macros;
mod parser;

pub(crate) use parser::{Parsed, parse};
