//! Translates Go (RE2) regular expressions to the syntax of the `regex` crate. The differences can change what a policy
//! admits: in Go `\d` matches ASCII digits only, and character classes have no set operators.

/// Translates a pattern; the error names what Go would reject.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    let mut translator = RegexTranslator {
        rest: pattern,
        out: String::with_capacity(pattern.len() + 16),
    };
    while let Some(character) = translator.next() {
        match character {
            '\\' => translator.escape(false)?,
            '[' => translator.class()?,
            '(' => translator.group()?,
            other => translator.out.push(other),
        }
    }
    Ok(translator.out)
}

struct RegexTranslator<'p> {
    rest: &'p str,
    out: String,
}

impl RegexTranslator<'_> {
    fn next(&mut self) -> Option<char> {
        let character = self.rest.chars().next()?;
        self.rest = &self.rest[character.len_utf8()..];
        Some(character)
    }

    fn accept(&mut self, prefix: &str) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Translates the escape sequence after a backslash.
    fn escape(&mut self, in_class: bool) -> Result<(), String> {
        let Some(letter) = self.next() else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        let class = match letter.to_ascii_lowercase() {
            'd' => Some("0-9"),
            'w' => Some("0-9A-Za-z_"),
            's' => Some(r"\t\n\x0C\r "),
            _ => None,
        };
        match (class, letter) {
            (Some(class), 'D' | 'W' | 'S') => self.out.push_str(&format!("[^{class}]")),
            (Some(class), _) if in_class => self.out.push_str(class),
            (Some(class), _) => self.out.push_str(&format!("[{class}]")),
            (None, 'b' | 'B') if !in_class => self.out.push_str(&format!(r"(?-u:\{letter})")),
            (None, '<' | '>') => self.out.push(letter),
            (None, 'Q') => self.quoted_literal(),
            (None, _) => {
                self.out.push('\\');
                self.out.push(letter);
            }
        }
        Ok(())
    }

    /// `\Q...\E`: literal text.
    fn quoted_literal(&mut self) {
        let end = self.rest.find(r"\E").unwrap_or(self.rest.len());
        self.out.push_str(&regex::escape(&self.rest[..end]));
        self.rest = self.rest[end..].strip_prefix(r"\E").unwrap_or("");
    }

    fn class(&mut self) -> Result<(), String> {
        let class_start = self.rest;
        self.out.push('[');
        if self.accept("^") {
            self.out.push('^');
        }
        if self.accept("]") {
            self.out.push_str(r"\]");
        }
        loop {
            let Some(character) = self.next() else {
                return Err(format!("missing closing ]: `[{class_start}`"));
            };
            match character {
                ']' => break,
                '\\' => self.escape(true)?,
                '[' => self.named_class(),
                '&' | '~' => {
                    self.out.push('\\');
                    self.out.push(character);
                }
                '-' if self.rest.starts_with('-') => {
                    self.next();
                    self.out.push_str(r"-\-");
                }
                other => self.out.push(other),
            }
        }
        self.out.push(']');
        Ok(())
    }

    /// `[:alpha:]`; any other bracket in a class is literal.
    fn named_class(&mut self) {
        let name = self
            .rest
            .strip_prefix(':')
            .and_then(|rest| rest.split_once(":]"));
        match name {
            Some((name, after)) if name.chars().all(|c| c.is_ascii_alphabetic() || c == '^') => {
                self.out.push_str(&format!("[:{name}:]"));
                self.rest = after;
            }
            _ => self.out.push_str(r"\["),
        }
    }

    /// Rejects flags that Go does not have.
    fn group(&mut self) -> Result<(), String> {
        self.out.push('(');
        let Some(flags) = self.rest.strip_prefix('?') else {
            return Ok(());
        };
        let flags: String = flags
            .chars()
            .take_while(|c| c.is_ascii_alphabetic() || *c == '-')
            .collect();
        match flags.find(['x', 'u', 'R']) {
            Some(at) => Err(format!(
                "invalid or unsupported Perl syntax: `(?{}`",
                &flags[..=at]
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::translate;

    #[test]
    fn translated_patterns_have_go_semantics() {
        for (pattern, expected) in [
            (r"\d+", "[0-9]+"),
            (r"[\d.]", "[0-9.]"),
            (r"\W", "[^0-9A-Za-z_]"),
            (r"[^\s]", r"[^\t\n\x0C\r ]"),
            (r"\bx", r"(?-u:\b)x"),
            (r"[[:alpha:]_]", "[[:alpha:]_]"),
            (r"[[]", r"[\[]"),
            (r"[]a]", r"[\]a]"),
            (r"[a&&b]", r"[a\&\&b]"),
            (r"[+--]", r"[+-\-]"),
            (r"\Qa.b\E+", r"a\.b+"),
            (r"\<a\>", "<a>"),
            (r"(?i)a(?P<n>b)", "(?i)a(?P<n>b)"),
            (r"\.\\", r"\.\\"),
        ] {
            assert_eq!(translate(pattern).as_deref(), Ok(expected), "{pattern}");
        }
        for pattern in ["(?x)a", "[a", r"a\"] {
            assert!(translate(pattern).is_err(), "{pattern}");
        }
    }
}
