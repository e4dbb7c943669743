//! Patterns are written for Go's regular expressions, which differ from ours in small things that decide what a
//! policy lets through: `\d` is a digit of ASCII, and there are no operators between classes.

/// The pattern in our syntax, or what Go would not accept.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    let mut translator = Translator {
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

struct Translator<'p> {
    rest: &'p str,
    out: String,
}

impl Translator<'_> {
    fn next(&mut self) -> Option<char> {
        let character = self.rest.chars().next()?;
        self.rest = &self.rest[character.len_utf8()..];
        Some(character)
    }

    fn accept(&mut self, wanted: &str) -> bool {
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// What follows a backslash, in a class or outside.
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
            (None, 'Q') => self.literal(),
            (None, _) => {
                self.out.push('\\');
                self.out.push(letter);
            }
        }
        Ok(())
    }

    /// `\Q...\E`: nothing in it means anything.
    fn literal(&mut self) {
        let end = self.rest.find(r"\E").unwrap_or(self.rest.len());
        self.out.push_str(&regex::escape(&self.rest[..end]));
        self.rest = self.rest[end..].strip_prefix(r"\E").unwrap_or("");
    }

    fn class(&mut self) -> Result<(), String> {
        let whole = self.rest;
        self.out.push('[');
        if self.accept("^") {
            self.out.push('^');
        }
        if self.accept("]") {
            self.out.push_str(r"\]");
        }
        loop {
            let Some(character) = self.next() else {
                return Err(format!("missing closing ]: `[{whole}`"));
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

    /// `[:alpha:]`; any other bracket in a class is only a bracket.
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

    /// Flags that Go does not have are refused.
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
    fn patterns_mean_what_they_mean_in_go() {
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
