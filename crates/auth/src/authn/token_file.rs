//! The file of fixed tokens: `token,user,uid,"group1,group2"`, one a line.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use ring::digest::{SHA256, digest};

use crate::user::User;

/// Users by their tokens.
///
/// Only digests of the tokens are kept: finding one takes no time that depends on how much of a token is right,
/// and there is nothing to leak.
#[derive(Default)]
pub struct TokenFile {
    users: HashMap<[u8; 32], Arc<User>>,
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenFile({} tokens)", self.users.len())
    }
}

/// What is wrong in a token file, and in which line. The text never holds a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct TokenFileError {
    pub line: usize,
    problem: String,
}

impl TokenFile {
    /// Reads the file's text. An empty token and a token that is there twice are refused: both are mistakes that
    /// give somebody the wrong rights.
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
                return problem("the token is in the file twice".to_owned());
            }
        }
        Ok(file)
    }

    /// With the groups that a user has who has shown a token.
    pub(super) fn user(&self, token: &str) -> Option<&Arc<User>> {
        self.users.get(&digest_of(token))
    }
}

fn digest_of(token: &str) -> [u8; 32] {
    let mut key = [0; 32];
    key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    key
}

/// The records of a CSV text, each with the line it begins in. Empty lines are none.
fn records(text: &str) -> Result<Vec<(usize, Vec<String>)>, TokenFileError> {
    let mut reader = Reader {
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
            return Err(reader.problem("a quote ends before the field does"));
        }
        records.push((line, record));
    }
    Ok(records)
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl Reader<'_> {
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
            return Err(self.problem("a field with quotes must be quoted as a whole"));
        }
        Ok(field.to_owned())
    }

    /// The rest of a quoted field; a quote in it is written twice.
    fn quoted(&mut self) -> Result<String, TokenFileError> {
        let mut field = String::new();
        loop {
            let Some((part, rest)) = self.rest.split_once('"') else {
                return Err(self.problem("a quote is not closed"));
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
    fn tokens_are_read_as_upstream_reads_them() {
        let text = "t1,ann,1\nt2,\"bob, b\",2,\"dev,ops\"\r\n\nt3,c\"\n";
        let error = TokenFile::parse(text).expect_err("a stray quote");
        assert_eq!(
            error.to_string(),
            "line 4: a field with quotes must be quoted as a whole"
        );
        let file = TokenFile::parse(&text[..text.len() - 6]).expect("good");
        assert_eq!(file.user("t1").expect("there").name, "ann");
        let bob = file.user("t2").expect("there");
        assert_eq!((bob.name.as_str(), bob.uid.as_str()), ("bob, b", "2"));
        assert_eq!(bob.groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!(file.user("t"), None);
        assert_eq!(file.user(""), None);
        assert_eq!(format!("{file:?}"), "TokenFile(2 tokens)");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_without_the_token() {
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
            (
                "secret,ann,1\n\nsecret,bob,2",
                "line 3: the token is in the file twice",
            ),
            ("\"secret,ann,1\n", "line 1: a quote is not closed"),
            (
                "\"secret\"x,ann,1\n",
                "line 1: a quote ends before the field does",
            ),
        ];
        for (text, want) in cases {
            assert_eq!(TokenFile::parse(text).expect_err(text).to_string(), want);
        }
        assert!(TokenFile::parse("").is_ok());
    }
}
