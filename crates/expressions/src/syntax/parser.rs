//! From tokens to a tree.
//!
//! Nesting is counted while parsing, so that neither this parser nor anything that later walks through the tree
//! can exhaust the stack.

use super::ast::{Expr, Kind, Logic};
use super::issue::Issue;
use super::lexer::{Lexeme, Token, shown, tokens};
use super::{literal, macros, words};
use crate::limits;
use crate::value::Value;
use std::sync::Arc;

pub(super) const OPERAND: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
const OPERAND_OR_CLOSE: &str = "{'[', '{', '(', ')', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) root: Expr,
    /// Every expression has a number below this one.
    pub(crate) ids: usize,
}

/// Parsing stops here; the issue has been noted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop;

pub(super) type Step<T> = Result<T, Stop>;

#[derive(Debug)]
pub(super) struct Parser {
    text: Vec<char>,
    lexemes: Vec<Lexeme>,
    pub(super) next: usize,
    nesting: usize,
    pub(super) ids: usize,
    pub(super) issues: Vec<Issue>,
}

pub(crate) fn parse(text: &str) -> Result<Parsed, Vec<Issue>> {
    let size = text.chars().count();
    if size > limits::TEXT_CHARACTERS_MAX {
        return Err(vec![Issue::nowhere(format!(
            "expression code point size exceeds limit: size: {size}, limit {}",
            limits::TEXT_CHARACTERS_MAX
        ))]);
    }
    let text: Vec<char> = text.chars().collect();
    let (lexemes, issues) = tokens(&text);
    let mut parser = Parser {
        text,
        lexemes,
        next: 0,
        nesting: 0,
        ids: 0,
        issues,
    };
    let root = parser.expression().and_then(|root| {
        parser.end()?;
        Ok(root)
    });
    match root {
        Ok(root) if parser.issues.is_empty() => Ok(Parsed {
            root,
            ids: parser.ids,
        }),
        _ => Err(parser.issues),
    }
}

impl Parser {
    pub(super) fn peek(&self) -> Lexeme {
        self.ahead(0)
    }

    pub(super) fn ahead(&self, count: usize) -> Lexeme {
        let last = self.lexemes.len() - 1;
        self.lexemes[(self.next + count).min(last)]
    }

    pub(super) fn advance(&mut self) -> Lexeme {
        let lexeme = self.peek();
        self.next += 1;
        lexeme
    }

    pub(super) fn word(&self, lexeme: Lexeme) -> String {
        self.text[lexeme.start..lexeme.end].iter().collect()
    }

    pub(super) fn accept(&mut self, symbol: &'static str) -> Option<usize> {
        let lexeme = self.peek();
        if lexeme.token != Token::Symbol(symbol) {
            return None;
        }
        self.next += 1;
        Some(lexeme.start)
    }

    /// What error messages call a token.
    pub(super) fn name(&self, lexeme: Lexeme) -> String {
        match lexeme.token {
            Token::End => "<EOF>".to_owned(),
            _ => shown(&self.word(lexeme)),
        }
    }

    pub(super) fn note(&mut self, at: usize, message: impl Into<String>) {
        self.issues.push(Issue::at(at, message));
    }

    pub(super) fn syntax<T>(&mut self, at: usize, message: &str) -> Step<T> {
        self.note(at, format!("Syntax error: {message}"));
        Err(Stop)
    }

    /// A new expression, unless there are too many or they are nested too deeply.
    pub(super) fn make(&mut self, at: usize, kind: Kind) -> Step<Expr> {
        let mut expr = Expr {
            id: self.ids,
            at,
            depth: 0,
            kind: Box::new(kind),
        };
        self.ids += 1;
        expr.depth = 1 + expr.children().iter().map(|c| c.depth).max().unwrap_or(0);
        if expr.depth > limits::DEPTH_MAX || self.ids > limits::NODES_MAX {
            self.issues
                .push(Issue::nowhere("max recursion depth exceeded"));
            return Err(Stop);
        }
        Ok(expr)
    }

    pub(super) fn expression(&mut self) -> Step<Expr> {
        self.nesting += 1;
        if self.nesting > limits::NESTING_MAX {
            self.issues.push(Issue::nowhere(format!(
                "expression recursion limit exceeded: {}",
                limits::NESTING_MAX
            )));
            return Err(Stop);
        }
        let condition = self.binary(1)?;
        let expr = match self.accept("?") {
            Some(at) => {
                let then = self.binary(1)?;
                self.expect(":")?;
                let otherwise = self.expression()?;
                self.operator(at, "_?_:_", vec![condition, then, otherwise])?
            }
            None => condition,
        };
        self.nesting -= 1;
        Ok(expr)
    }

    pub(super) fn operator(&mut self, at: usize, name: &str, args: Vec<Expr>) -> Step<Expr> {
        self.make(
            at,
            Kind::Call {
                function: name.into(),
                target: None,
                args,
            },
        )
    }

    /// Operators between operands, of those that bind at least so tightly.
    pub(super) fn binary(&mut self, tightness: u8) -> Step<Expr> {
        let mut left = self.unary()?;
        while let Some((function, binds)) = self.binary_operator() {
            if binds < tightness {
                break;
            }
            let at = self.advance().start;
            let right = self.binary(binds + 1)?;
            left = match function {
                "||" => self.logic(at, Logic::Or, left, right)?,
                "&&" => self.logic(at, Logic::And, left, right)?,
                _ => self.operator(at, function, vec![left, right])?,
            };
        }
        Ok(left)
    }

    /// One more term, so that a long chain does not become a deep tree.
    pub(super) fn logic(
        &mut self,
        at: usize,
        operator: Logic,
        left: Expr,
        right: Expr,
    ) -> Step<Expr> {
        let mut left = left;
        if let Kind::Logic {
            operator: same,
            terms,
        } = &mut *left.kind
            && *same == operator
        {
            left.depth = left.depth.max(right.depth + 1);
            terms.push(right);
            return Ok(left);
        }
        let terms = vec![left, right];
        self.make(at, Kind::Logic { operator, terms })
    }

    pub(super) fn binary_operator(&self) -> Option<(&'static str, u8)> {
        let Token::Symbol(symbol) = self.peek().token else {
            return None;
        };
        Some(match symbol {
            "||" => ("||", 1),
            "&&" => ("&&", 2),
            "<" => ("_<_", 3),
            "<=" => ("_<=_", 3),
            ">" => ("_>_", 3),
            ">=" => ("_>=_", 3),
            "==" => ("_==_", 3),
            "!=" => ("_!=_", 3),
            "in" => ("@in", 3),
            "+" => ("_+_", 4),
            "-" => ("_-_", 4),
            "*" => ("_*_", 5),
            "/" => ("_/_", 5),
            "%" => ("_%_", 5),
            _ => return None,
        })
    }

    pub(super) fn unary(&mut self) -> Step<Expr> {
        let start = self.peek().start;
        for (symbol, function) in [("!", "!_"), ("-", "-_")] {
            let mut count = 0;
            while self.ahead(count).token == Token::Symbol(symbol) {
                count += 1;
            }
            let signs_number = symbol == "-"
                && count == 1
                && matches!(self.ahead(1).token, Token::Int | Token::Float);
            if count == 0 || signs_number {
                continue;
            }
            self.next += count;
            let operand = self.member()?;
            return match count % 2 {
                0 => Ok(operand),
                _ => self.operator(start, function, vec![operand]),
            };
        }
        self.member()
    }

    pub(super) fn member(&mut self) -> Step<Expr> {
        let mut expr = self.primary()?;
        loop {
            expr = if let Some(at) = self.accept(".") {
                self.select(expr, at)?
            } else if let Some(at) = self.accept("[") {
                let function = match self.accept("?") {
                    Some(_) => "_[?_]",
                    None => "_[_]",
                };
                let index = self.expression()?;
                self.expect("]")?;
                self.operator(at, function, vec![expr, index])?
            } else {
                return Ok(expr);
            };
        }
    }

    pub(super) fn select(&mut self, operand: Expr, at: usize) -> Step<Expr> {
        let optional = self.accept("?").is_some();
        let name = self.peek();
        match name.token {
            Token::Ident => {}
            Token::Quoted => {
                self.note(name.start, "unsupported syntax: '`'");
            }
            _ => {
                if optional {
                    let problem = "mismatched input '{}' expecting {IDENTIFIER, ESC_IDENTIFIER}";
                    let problem = problem.replace("{}", &self.name(name));
                    self.note(name.start, format!("Syntax error: {problem}"));
                    self.note(name.start, "unsupported ident kind");
                    return Err(Stop);
                }
                let seen = match name.token {
                    Token::End => ".".to_owned(),
                    _ => format!(".{}", self.name(name)),
                };
                return self.syntax(
                    name.start,
                    &format!("no viable alternative at input '{seen}'"),
                );
            }
        }
        self.next += 1;
        let field: Arc<str> = self.word(name).into();
        let operand = Box::new(operand);
        if optional {
            return self.make(at, Kind::OptionalSelect { operand, field });
        }
        match self.accept("(") {
            Some(open) => {
                let args = self.arguments()?;
                macros::member_call(self, open, *operand, field, args)
            }
            None => self.make(
                at,
                Kind::Select {
                    operand,
                    field,
                    test: false,
                },
            ),
        }
    }

    pub(super) fn arguments(&mut self) -> Step<Vec<Expr>> {
        let mut args = Vec::new();
        if self.accept(")").is_some() {
            return Ok(args);
        }
        if !self.begins_operand(0) {
            return self.no_operand(OPERAND_OR_CLOSE);
        }
        args.push(self.expression()?);
        while self.accept(",").is_some() {
            args.push(self.expression()?);
        }
        self.expect(")")?;
        Ok(args)
    }

    pub(super) fn primary(&mut self) -> Step<Expr> {
        self.skip_to_operand();
        let lexeme = self.peek();
        match lexeme.token {
            Token::Symbol("(") => {
                self.next += 1;
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Symbol("[") => self.list(),
            Token::Symbol("{") => self.map(),
            Token::Symbol("true") => self.literal(Ok(Value::Bool(true))),
            Token::Symbol("false") => self.literal(Ok(Value::Bool(false))),
            Token::Symbol("null") => self.literal(Ok(Value::Null)),
            Token::Symbol(".") | Token::Ident => self.named(),
            Token::Symbol("-") => {
                self.next += 1;
                let number = self.word(self.peek());
                let value = match self.peek().token {
                    Token::Int => literal::int(&number, true),
                    Token::Float => literal::float(&number, true),
                    _ => return self.no_operand(OPERAND),
                };
                let expr = self.literal(value)?;
                Ok(Expr {
                    at: lexeme.start,
                    ..expr
                })
            }
            Token::Int => self.literal(literal::int(&self.word(lexeme), false)),
            Token::Uint => self.literal(literal::uint(&self.word(lexeme))),
            Token::Float => self.literal(literal::float(&self.word(lexeme), false)),
            Token::String => self.literal(literal::string(&self.word(lexeme))),
            Token::Bytes => self.literal(literal::bytes(&self.word(lexeme))),
            _ => self.no_operand(OPERAND),
        }
    }

    pub(super) fn literal(&mut self, value: Result<Value, &'static str>) -> Step<Expr> {
        let at = self.advance().start;
        let value = value.unwrap_or_else(|problem| {
            self.note(at, problem);
            Value::Null
        });
        self.make(at, Kind::Literal(value))
    }

    /// A variable, a call of a function, or a message.
    pub(super) fn named(&mut self) -> Step<Expr> {
        let dot = self.accept(".").map(|_| ".").unwrap_or_default();
        let first = self.peek();
        if first.token != Token::Ident {
            let seen = match first.token {
                Token::End => ".".to_owned(),
                _ => format!(".{}", self.name(first)),
            };
            return self.syntax(
                first.start,
                &format!("no viable alternative at input '{seen}'"),
            );
        }
        if let Some(length) = self.message_name_length() {
            return self.message(dot, length);
        }
        self.next += 1;
        let word = self.word(first);
        let name: Arc<str> = format!("{dot}{word}").into();
        let open = self.accept("(");
        if words::is_reserved(&word) {
            self.note(first.start, format!("reserved identifier: {word}"));
        }
        match open {
            Some(open) => {
                let args = self.arguments()?;
                macros::global_call(self, open, name, args)
            }
            None => self.make(first.start, Kind::Ident(name)),
        }
    }
}
