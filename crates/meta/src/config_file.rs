//! Strict parsing of configuration files (YAML or JSON): errors have a line and a column, nothing is ignored.

use std::fmt;

use serde::de::DeserializeOwned;

/// An error in a configuration file, with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFileError {
    /// 1-based; 0 if the error concerns the whole file.
    pub line: u64,
    /// 1-based; 0 if the error concerns the whole line.
    pub column: u64,
    pub reason: String,
}

impl ConfigFileError {
    /// An error that concerns the whole file.
    pub fn whole(reason: impl Into<String>) -> ConfigFileError {
        ConfigFileError::at((0, 0), reason)
    }

    /// An error at a line and a column.
    pub fn at((line, column): (u64, u64), reason: impl Into<String>) -> ConfigFileError {
        ConfigFileError {
            line,
            column,
            reason: reason.into(),
        }
    }
}

impl fmt::Display for ConfigFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reason = &self.reason;
        match (self.line, self.column) {
            (0, _) => f.write_str(reason),
            (line, 0) => write!(f, "line {line}: {reason}"),
            (line, column) => write!(f, "line {line}, column {column}: {reason}"),
        }
    }
}

impl std::error::Error for ConfigFileError {}

const BYTES_MAX: usize = 256 * 1024;

/// Parses the text of a configuration file in YAML or JSON.
pub fn read_file<T: DeserializeOwned>(text: &str) -> Result<T, ConfigFileError> {
    if text.len() > BYTES_MAX {
        let reason = format!("the file is longer than {BYTES_MAX} bytes");
        return Err(ConfigFileError::whole(reason));
    }
    let has_text = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    if !text.lines().any(has_text) {
        return Err(ConfigFileError::whole("the file is empty"));
    }
    serde_saphyr::from_str(text).map_err(|problem| {
        let location = problem.location();
        let position = location.map_or((0, 0), |at| (at.line(), at.column()));
        ConfigFileError::at(position, message(&problem))
    })
}

/// The error message as a single line, without the snippet of the file.
fn message(problem: &serde_saphyr::Error) -> String {
    let text = problem.without_snippet().to_string();
    let text = text.lines().next().unwrap_or_default();
    if text.contains("multiple YAML documents") {
        return "expected a single YAML document, found a second one".to_owned();
    }
    // Cut off the position, which the caller prints, and the hint to the programmer.
    let ends = [" at line ", ", set DuplicateKeyPolicy"];
    let end = ends.iter().filter_map(|end| text.find(end)).min();
    text.get(..end.unwrap_or(text.len()))
        .unwrap_or(text)
        .to_owned()
}
