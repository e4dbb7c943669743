//! Parser for label selectors.
//!
//! ```text
//! selector    = [ requirement { "," requirement } ]
//! requirement = [ "!" ] key | key ( "=" | "==" | "!=" | ">" | "<" ) [ value ] | key ( "in" | "notin" ) "(" values ")"
//! values      = [ value ] { "," [ value ] }
//! ```

use super::lexer::{Lexer, Token, TokenKind};
use super::{Operator, REQUIREMENTS_MAX, Requirement, SELECTOR_MAX_BYTES};
use crate::field::{self, ErrorList, Path};
use crate::validation;

/// Why a text is not a label selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelSelectorParseError {
    #[error("found '{found}', expected: {expected}")]
    Unexpected {
        found: String,
        expected: &'static str,
    },
    #[error("unable to parse requirement: {0}")]
    Requirement(RequirementParseError),
    #[error("selector of {0} bytes is too long: at most {SELECTOR_MAX_BYTES} bytes are accepted")]
    TooLong(usize),
    #[error("selector has too many requirements: at most {REQUIREMENTS_MAX} are accepted")]
    TooMany,
}

/// Why a requirement of a selector cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequirementParseError {
    #[error("found '{found}', expected: {expected}")]
    Unexpected {
        found: String,
        expected: &'static str,
    },
    /// Separate from `Unexpected`, because upstream's text has no comma here.
    #[error("found '{found}' expected: '('")]
    NoParenthesis { found: String },
    #[error("{0}")]
    Key(field::Error),
    #[error("{0}")]
    Invalid(ErrorList),
}

fn unexpected(token: Token<'_>, expected: &'static str) -> RequirementParseError {
    RequirementParseError::Unexpected {
        found: token.text.to_owned(),
        expected,
    }
}

/// Parses the requirements of a selector, in the order of the text.
pub(super) fn parse(
    input: &str,
    path: &Path<'_>,
) -> Result<Vec<Requirement>, LabelSelectorParseError> {
    if input.len() > SELECTOR_MAX_BYTES {
        return Err(LabelSelectorParseError::TooLong(input.len()));
    }
    Parser::new(input).selector(path)
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    ahead: Token<'a>,
}

impl<'a> Parser<'a> {
    fn new(input: &'a str) -> Self {
        let mut lexer = Lexer::new(input);
        let ahead = lexer.next();
        Parser { lexer, ahead }
    }

    fn consume(&mut self) -> Token<'a> {
        std::mem::replace(&mut self.ahead, self.lexer.next())
    }

    fn starts_requirement(&self) -> bool {
        matches!(
            self.ahead.kind_as_word(),
            TokenKind::Identifier | TokenKind::Not
        )
    }

    fn selector(mut self, path: &Path<'_>) -> Result<Vec<Requirement>, LabelSelectorParseError> {
        let mut requirements = Vec::new();
        if self.ahead.kind == TokenKind::End {
            return Ok(requirements);
        }
        let mut expected = "!, identifier, or 'end of string'";
        loop {
            if !self.starts_requirement() {
                return Err(LabelSelectorParseError::Unexpected {
                    found: self.ahead.text.to_owned(),
                    expected,
                });
            }
            if requirements.len() == REQUIREMENTS_MAX {
                return Err(LabelSelectorParseError::TooMany);
            }
            requirements.push(
                self.requirement(path)
                    .map_err(LabelSelectorParseError::Requirement)?,
            );
            let next = self.consume();
            match next.kind {
                TokenKind::End => return Ok(requirements),
                TokenKind::Comma => expected = "identifier after ','",
                _ => {
                    let expected = "',' or 'end of string'";
                    return Err(LabelSelectorParseError::Unexpected {
                        found: next.text.to_owned(),
                        expected,
                    });
                }
            }
        }
    }

    fn requirement(&mut self, path: &Path<'_>) -> Result<Requirement, RequirementParseError> {
        let negated = self.ahead.kind == TokenKind::Not;
        if negated {
            self.consume();
        }
        let key = self.key(path)?;
        let ends = matches!(self.ahead.kind, TokenKind::End | TokenKind::Comma);
        let (operator, values) = match (negated, ends) {
            (true, _) => (Operator::DoesNotExist, Vec::new()),
            (false, true) => (Operator::Exists, Vec::new()),
            (false, false) => match self.operator()? {
                operator @ (Operator::In | Operator::NotIn) => (operator, self.values()?),
                operator => (operator, vec![self.exact_value()?]),
            },
        };
        Requirement::new_at(path, key, operator, &values).map_err(RequirementParseError::Invalid)
    }

    fn key(&mut self, path: &Path<'_>) -> Result<&'a str, RequirementParseError> {
        let token = self.consume();
        if token.kind_as_word() != TokenKind::Identifier {
            return Err(unexpected(token, "identifier"));
        }
        let problems = validation::qualified_name(token.text);
        if !problems.is_empty() {
            let error = field::Error::invalid(path, token.text, problems.join("; "));
            return Err(RequirementParseError::Key(error));
        }
        Ok(token.text)
    }

    fn operator(&mut self) -> Result<Operator, RequirementParseError> {
        let token = self.consume();
        Ok(match token.kind {
            TokenKind::In => Operator::In,
            TokenKind::NotIn => Operator::NotIn,
            TokenKind::Equals => Operator::Equals,
            TokenKind::DoubleEquals => Operator::DoubleEquals,
            TokenKind::NotEquals => Operator::NotEquals,
            TokenKind::GreaterThan => Operator::GreaterThan,
            TokenKind::LessThan => Operator::LessThan,
            _ => return Err(unexpected(token, "in, notin, =, ==, !=, gt, lt")),
        })
    }

    /// The value of a comparison; a missing value is the empty string.
    fn exact_value(&mut self) -> Result<&'a str, RequirementParseError> {
        match self.ahead.kind_as_word() {
            TokenKind::End | TokenKind::Comma => Ok(""),
            TokenKind::Identifier => Ok(self.consume().text),
            _ => Err(unexpected(self.ahead, "identifier")),
        }
    }

    /// The values in parentheses, sorted and deduplicated; nothing between two commas is the empty string.
    fn values(&mut self) -> Result<Vec<&'a str>, RequirementParseError> {
        let open = self.consume();
        if open.kind != TokenKind::OpenParenthesis {
            return Err(RequirementParseError::NoParenthesis {
                found: open.text.to_owned(),
            });
        }
        let mut values = match self.ahead.kind_as_word() {
            TokenKind::ClosedParenthesis => vec![""],
            TokenKind::Identifier | TokenKind::Comma => self.value_list()?,
            _ => return Err(unexpected(self.ahead, "',', ')' or identifier")),
        };
        self.consume();
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }

    /// Parses values up to the closing parenthesis, without consuming it.
    fn value_list(&mut self) -> Result<Vec<&'a str>, RequirementParseError> {
        let mut values = Vec::new();
        loop {
            let token = self.consume();
            match token.kind_as_word() {
                TokenKind::Identifier => {
                    values.push(token.text);
                    match self.ahead.kind {
                        TokenKind::Comma => {}
                        TokenKind::ClosedParenthesis => return Ok(values),
                        _ => return Err(unexpected(self.ahead, "',' or ')'")),
                    }
                }
                TokenKind::Comma => {
                    let next = self.ahead.kind;
                    if values.is_empty()
                        || matches!(next, TokenKind::Comma | TokenKind::ClosedParenthesis)
                    {
                        values.push("");
                    }
                    if next == TokenKind::ClosedParenthesis {
                        return Ok(values);
                    }
                }
                _ => return Err(unexpected(token, "',', or identifier")),
            }
        }
    }
}
