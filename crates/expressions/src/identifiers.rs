//! Identifiers and reserved words of CEL.

/// Words that cannot be identifiers.
const RESERVED_WORDS: [&str; 18] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "package",
    "return",
    "var",
    "void",
    "while",
];

pub(crate) fn is_reserved(word: &str) -> bool {
    RESERVED_WORDS.contains(&word)
}

/// Whether the word is reserved or one of the literals `true`, `false`, `null`.
pub(crate) fn is_reserved_or_literal(word: &str) -> bool {
    is_reserved(word) || matches!(word, "true" | "false" | "null")
}

/// Whether the name is a valid CEL identifier.
pub fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !is_reserved_or_literal(name)
}
