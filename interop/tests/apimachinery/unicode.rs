//! The only accepted difference: both sides may use different Unicode versions.
//!
//! A character that Rust knows but Go does not is printed by rhumb and escaped by upstream. Every character is
//! compared, so that no other difference is hidden.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::protocol::OracleRequest;
use crate::{oracle, rhumb_responses};

static NEWER: LazyLock<HashSet<char>> = LazyLock::new(|| {
    let characters: Vec<char> = ('\0'..=char::MAX).collect();
    let requests: Vec<OracleRequest> = characters
        .iter()
        .map(|c| OracleRequest::text("quote", c.to_string()))
        .collect();
    let theirs = oracle::run(&requests);
    let mut newer = HashSet::new();
    for ((&character, request), theirs) in characters.iter().zip(&requests).zip(&theirs) {
        let ours = rhumb_responses::respond(request).output;
        if ours != theirs.output {
            let only_theirs =
                theirs.output.starts_with("\"\\") && ours == format!("\"{character}\"");
            assert!(
                only_theirs,
                "{character:?}: upstream {}, ours {ours}",
                theirs.output
            );
            newer.insert(character);
        }
    }
    newer
});

pub(crate) fn newer_than_upstream() -> &'static HashSet<char> {
    &NEWER
}

/// Whether a request contains a character unknown to Go.
pub(crate) fn is_too_new(request: &OracleRequest) -> bool {
    let json = serde_json::to_string(request).expect("serializes");
    !json.is_ascii() && json.chars().any(|c| NEWER.contains(&c))
}
