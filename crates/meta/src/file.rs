//! What is wrong with a file that an operator wrote.

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// Counted from 1; 0 if no line is to blame.
    pub line: u64,
    /// Counted from 1; 0 if the whole line is to blame.
    pub column: u64,
    pub reason: String,
}

impl FileError {
    pub fn whole(reason: impl Into<String>) -> FileError {
        FileError::at((0, 0), reason)
    }

    /// At a line and a column.
    pub fn at((line, column): (u64, u64), reason: impl Into<String>) -> FileError {
        FileError {
            line,
            column,
            reason: reason.into(),
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = &self.reason;
        match (self.line, self.column) {
            (0, _) => f.write_str(reason),
            (line, 0) => write!(f, "line {line}: {reason}"),
            (line, column) => write!(f, "line {line}, column {column}: {reason}"),
        }
    }
}

impl std::error::Error for FileError {}
