//! Joins error messages as upstream's `utilerrors.Aggregate` does.

use std::collections::HashSet;

/// A single message is returned as is, several in brackets; duplicates are removed.
pub fn aggregate(messages: &[String]) -> String {
    let mut seen = HashSet::with_capacity(messages.len());
    let messages = messages.iter().map(String::as_str);
    let distinct: Vec<&str> = messages.filter(|message| seen.insert(*message)).collect();
    match distinct.as_slice() {
        [] => String::new(),
        [only] => (*only).to_owned(),
        several => format!("[{}]", several.join(", ")),
    }
}
