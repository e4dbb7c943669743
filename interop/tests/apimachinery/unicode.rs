//! The one difference that is let pass: the two sides may know different versions of Unicode.
//!
//! A character that Rust knows and Go does not know yet is printed by us and escaped by upstream. Every
//! character is asked for, so that nothing else can hide behind this.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::protocol::Question;
use crate::{oracle, ours};

static NEWER: LazyLock<HashSet<char>> = LazyLock::new(|| {
    let characters: Vec<char> = ('\0'..=char::MAX).collect();
    let questions: Vec<Question> = characters
        .iter()
        .map(|c| Question::text("quote", c.to_string()))
        .collect();
    let theirs = oracle::ask(&questions);
    let mut newer = HashSet::new();
    for ((&character, question), theirs) in characters.iter().zip(&questions).zip(&theirs) {
        let ours = ours::reply(question).output;
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

/// Whether a question has a character that upstream does not know.
pub(crate) fn is_too_new(question: &Question) -> bool {
    let json = serde_json::to_string(question).expect("serializes");
    !json.is_ascii() && json.chars().any(|c| NEWER.contains(&c))
}
