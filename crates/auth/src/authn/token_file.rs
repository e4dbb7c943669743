//! The static token file (`--token-auth-file`): one `token,user,uid,"group1,group2"` per line.
//!
//! Upstream: `authentication/token/tokenfile`.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use ring::digest::{SHA256, digest};

use crate::user::User;

/// Users by token.
///
/// Only digests of the tokens are kept, so that the time of a lookup does not depend on how much of a token matches
/// and memory does not contain the tokens.
#[derive(Default)]
pub struct TokenFile {
    users: HashMap<[u8; 32], Arc<User>>,
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenFile({} tokens)", self.users.len())
    }
}

/// A syntax error in a token file, with its line. The text never contains a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct TokenFileError {
    pub line: usize,
    problem: String,
}

impl TokenFile {
    /// Parses the file. Unlike upstream, empty and duplicate tokens are errors, because both would give a client the
    /// permissions of another user.
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let mut file = TokenFile::default();
        for (line, record) in records(text)? {
            let problem = |problem: String| Err(TokenFileError { line, problem });
            let mut fields = record.into_iter();
            let (token, name, uid) = match (fields.next(), fields.next(), fields.next()) {
                (Some(token), Some(name), Some(uid)) => (token, name, uid),
                (_, second, _) => {
                    let found = 1 + usize::from(second.is_some());
                    return problem(format!(
                        "must have at least 3 columns (token, user name, user uid), found {found}"
                    ));
                }
            };
            if token.is_empty() {
                return problem("the token is empty".to_owned());
            }
            let groups = fields.next().unwrap_or_default();
            let user = User {
                name,
                uid,
                groups: groups
                    .split(',')
                    .filter(|it| !it.is_empty())
                    .map(str::to_owned)
                    .collect(),
                ..User::default()
            };
            let user = Arc::new(user.authenticated());
            if file.users.insert(digest_of(&token), user).is_some() {
                return problem("duplicate token".to_owned());
            }
        }
        Ok(file)
    }

    /// The user of a token, with `system:authenticated` among the groups.
    pub(super) fn user(&self, token: &str) -> Option<&Arc<User>> {
        self.users.get(&digest_of(token))
    }
}

fn digest_of(token: &str) -> [u8; 32] {
    let mut key = [0; 32];
    key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    key
}

/// Parses CSV into records, each with the line on which it starts. Empty lines are skipped.
fn records(text: &str) -> Result<Vec<(usize, Vec<String>)>, TokenFileError> {
    let mut reader = CsvReader {
        rest: text,
        line: 1,
    };
    let mut records = Vec::new();
    while !reader.rest.is_empty() {
        if reader.end_of_line() {
            continue;
        }
        let line = reader.line;
        let mut record = Vec::new();
        loop {
            record.push(reader.field()?);
            if !reader.take(',') {
                break;
            }
        }
        if !reader.end_of_line() && !reader.rest.is_empty() {
            return Err(reader.problem("unexpected text after a closing quote"));
        }
        records.push((line, record));
    }
    Ok(records)
}

struct CsvReader<'a> {
    rest: &'a str,
    line: usize,
}

impl CsvReader<'_> {
    fn problem(&self, problem: &str) -> TokenFileError {
        TokenFileError {
            line: self.line,
            problem: problem.to_owned(),
        }
    }

    fn take(&mut self, wanted: char) -> bool {
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn end_of_line(&mut self) -> bool {
        let after_return = self.rest.strip_prefix('\r').unwrap_or(self.rest);
        let Some(rest) = after_return.strip_prefix('\n') else {
            return false;
        };
        self.rest = rest;
        self.line += 1;
        true
    }

    fn field(&mut self) -> Result<String, TokenFileError> {
        if self.take('"') {
            return self.quoted();
        }
        let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
        let (field, _) = self.rest.split_at(end);
        let field = field.strip_suffix('\r').unwrap_or(field);
        self.rest = &self.rest[field.len()..];
        if field.contains('"') {
            return Err(self.problem("quote in a field that does not start with a quote"));
        }
        Ok(field.to_owned())
    }

    /// Parses the rest of a quoted field; `""` is one quote.
    fn quoted(&mut self) -> Result<String, TokenFileError> {
        let mut field = String::new();
        loop {
            let Some((part, rest)) = self.rest.split_once('"') else {
                return Err(self.problem("quoted field is not terminated"));
            };
            field.push_str(part);
            self.line += part.matches('\n').count();
            self.rest = rest;
            if !self.take('"') {
                return Ok(field);
            }
            field.push('"');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_files_are_parsed_like_upstream() {
        let text = "t1,ann,1\nt2,\"bob, b\",2,\"dev,ops\"\r\n\nt3,c\"\n";
        let error = TokenFile::parse(text).expect_err("a stray quote is an error");
        assert_eq!(
            error.to_string(),
            "line 4: quote in a field that does not start with a quote"
        );
        let file = TokenFile::parse(&text[..text.len() - 6]).expect("a valid file");
        assert_eq!(file.user("t1").expect("a known token").name, "ann");
        let bob = file.user("t2").expect("a known token");
        assert_eq!((bob.name.as_str(), bob.uid.as_str()), ("bob, b", "2"));
        assert_eq!(bob.groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!(file.user("t"), None);
        assert_eq!(file.user(""), None);
        assert_eq!(format!("{file:?}"), "TokenFile(2 tokens)");
    }

    #[test]
    fn errors_have_the_line_but_not_the_token() {
        let cases = [
            (
                "secret",
                "line 1: must have at least 3 columns (token, user name, user uid), found 1",
            ),
            (
                "a,b,c\nsecret,x",
                "line 2: must have at least 3 columns (token, user name, user uid), found 2",
            ),
            (",ann,1", "line 1: the token is empty"),
            ("secret,ann,1\n\nsecret,bob,2", "line 3: duplicate token"),
            ("\"secret,ann,1\n", "line 1: quoted field is not terminated"),
            (
                "\"secret\"x,ann,1\n",
                "line 1: unexpected text after a closing quote",
            ),
        ];
        for (text, want) in cases {
            assert_eq!(TokenFile::parse(text).expect_err(text).to_string(), want);
        }
        assert!(TokenFile::parse("").is_ok());
    }
}
