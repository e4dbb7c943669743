//! Files in which an operator says something, read strictly: a slip is refused with its place, never passed over.

use std::fmt;

use serde::de::DeserializeOwned;

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

const BYTES_MAX: usize = 256 * 1024;

/// Reads a file, in YAML or JSON.
pub fn read_file<T: DeserializeOwned>(text: &str) -> Result<T, FileError> {
    if text.len() > BYTES_MAX {
        let reason = format!("it is longer than {BYTES_MAX} bytes");
        return Err(FileError::whole(reason));
    }
    let has_text = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    if !text.lines().any(has_text) {
        return Err(FileError::whole("it is empty"));
    }
    serde_saphyr::from_str(text).map_err(|problem| {
        let place = problem.location();
        let place = place.map_or((0, 0), |place| (place.line(), place.column()));
        FileError::at(place, message(&problem))
    })
}

/// The error without the piece of the file that it would show: a server that does not start says why in one line.
fn message(problem: &serde_saphyr::Error) -> String {
    let text = problem.without_snippet().to_string();
    let text = text.lines().next().unwrap_or_default();
    if text.contains("multiple YAML documents") {
        return "there is a second document, and one is expected".to_owned();
    }
    // Where it is stands before it, and what a programmer could do is not for operators.
    let ends = [" at line ", ", set DuplicateKeyPolicy"];
    let end = ends.iter().filter_map(|end| text.find(end)).min();
    text.get(..end.unwrap_or(text.len()))
        .unwrap_or(text)
        .to_owned()
}
