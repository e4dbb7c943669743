//! Several messages as one.

use std::collections::HashSet;

/// As upstream prints its aggregate: one message bare, several in brackets, repeated ones once.
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
