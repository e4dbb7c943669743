//! From text to a tree.

pub(crate) mod ast;
mod containers;
mod copy;
pub(crate) mod issue;
mod lexer;
mod literal;
mod macros;
mod parser;
mod recovery;
pub(crate) mod words;

pub(crate) use parser::{Parsed, parse};
