//! Words that CEL keeps for itself.

/// Words that cannot be the name of a variable or of a function.
const RESERVED: [&str; 18] = [
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
    RESERVED.contains(&word)
}

/// The same, and the names of values.
pub(crate) fn is_kept(word: &str) -> bool {
    is_reserved(word) || matches!(word, "true" | "false" | "null")
}

/// Whether a variable can have this name.
pub fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !is_kept(name)
}
