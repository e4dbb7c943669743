//! Parses the text of an expression into an AST and expands macros; the entry point is [`parse`]. Upstream counterpart:
//! cel-go's `parser` package.
//!
//! Nesting is limited during parsing, so that neither the parser nor any later recursion over the AST can exhaust the
//! stack.

mod aggregate_literals;
mod copy_expr;
mod error_recovery;
mod lexer;
mod literals;
mod macros;

use crate::ast::{Ast, Expr, ExprKind, LogicalOperator};
use crate::compile_issue::CompileIssue;
use crate::identifiers;
use crate::limits;
use crate::value::Value;
use lexer::{Token, TokenKind, escape_control_characters, tokenize};
use std::sync::Arc;

const OPERAND_TOKENS: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
const OPERAND_OR_CLOSE_TOKENS: &str = "{'[', '{', '(', ')', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

/// Parsing cannot continue; the issue has been reported.
#[derive(Clone, Copy, Debug)]
struct ParseAbort;

type ParseResult<T> = Result<T, ParseAbort>;

#[derive(Debug)]
struct Parser {
    text: Vec<char>,
    tokens: Vec<Token>,
    next: usize,
    nesting: usize,
    next_id: usize,
    issues: Vec<CompileIssue>,
}

pub(crate) fn parse(text: &str) -> Result<Ast, Vec<CompileIssue>> {
    let size = text.chars().count();
    if size > limits::EXPRESSION_CODE_POINTS_MAX {
        return Err(vec![CompileIssue::without_location(format!(
            "expression code point size exceeds limit: size: {size}, limit {}",
            limits::EXPRESSION_CODE_POINTS_MAX
        ))]);
    }
    let text: Vec<char> = text.chars().collect();
    let (tokens, issues) = tokenize(&text);
    let mut parser = Parser {
        text,
        tokens,
        next: 0,
        nesting: 0,
        next_id: 0,
        issues,
    };
    let root = parser.expression().and_then(|root| {
        parser.expect_eof()?;
        Ok(root)
    });
    match root {
        Ok(root) if parser.issues.is_empty() => Ok(Ast {
            root,
            id_count: parser.next_id,
        }),
        _ => Err(parser.issues),
    }
}

impl Parser {
    fn peek(&self) -> Token {
        self.lookahead(0)
    }

    fn lookahead(&self, count: usize) -> Token {
        let last = self.tokens.len() - 1;
        self.tokens[(self.next + count).min(last)]
    }

    fn advance(&mut self) -> Token {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn token_text(&self, token: Token) -> String {
        self.text[token.start..token.end].iter().collect()
    }

    fn accept(&mut self, symbol: &'static str) -> Option<usize> {
        let token = self.peek();
        if token.kind != TokenKind::Symbol(symbol) {
            return None;
        }
        self.next += 1;
        Some(token.start)
    }

    /// The token as error messages show it.
    fn token_display(&self, token: Token) -> String {
        match token.kind {
            TokenKind::Eof => "<EOF>".to_owned(),
            _ => escape_control_characters(&self.token_text(token)),
        }
    }

    fn report(&mut self, offset: usize, message: impl Into<String>) {
        self.issues.push(CompileIssue::at(offset, message));
    }

    fn syntax_error<T>(&mut self, offset: usize, message: &str) -> ParseResult<T> {
        self.report(offset, format!("Syntax error: {message}"));
        Err(ParseAbort)
    }

    /// Creates an expression, unless the AST becomes too large or too deep.
    fn new_expr(&mut self, offset: usize, kind: ExprKind) -> ParseResult<Expr> {
        let mut expr = Expr {
            id: self.next_id,
            offset,
            depth: 0,
            kind: Box::new(kind),
        };
        self.next_id += 1;
        expr.depth = 1 + expr.children().iter().map(|c| c.depth).max().unwrap_or(0);
        if expr.depth > limits::AST_DEPTH_MAX || self.next_id > limits::AST_NODES_MAX {
            self.issues.push(CompileIssue::without_location(
                "max recursion depth exceeded",
            ));
            return Err(ParseAbort);
        }
        Ok(expr)
    }

    fn expression(&mut self) -> ParseResult<Expr> {
        self.nesting += 1;
        if self.nesting > limits::NESTING_MAX {
            self.issues.push(CompileIssue::without_location(format!(
                "expression recursion limit exceeded: {}",
                limits::NESTING_MAX
            )));
            return Err(ParseAbort);
        }
        let condition = self.binary(1)?;
        let expr = match self.accept("?") {
            Some(offset) => {
                let then_branch = self.binary(1)?;
                self.expect(":")?;
                let else_branch = self.expression()?;
                self.operator(offset, "_?_:_", vec![condition, then_branch, else_branch])?
            }
            None => condition,
        };
        self.nesting -= 1;
        Ok(expr)
    }

    fn operator(&mut self, offset: usize, name: &str, args: Vec<Expr>) -> ParseResult<Expr> {
        self.new_expr(
            offset,
            ExprKind::Call {
                function: name.into(),
                target: None,
                args,
            },
        )
    }

    /// Parses binary operators of at least this precedence.
    fn binary(&mut self, min_precedence: u8) -> ParseResult<Expr> {
        let mut left = self.unary()?;
        while let Some((function, precedence)) = self.binary_operator() {
            if precedence < min_precedence {
                break;
            }
            let offset = self.advance().start;
            let right = self.binary(precedence + 1)?;
            left = match function {
                "||" => self.logical(offset, LogicalOperator::Or, left, right)?,
                "&&" => self.logical(offset, LogicalOperator::And, left, right)?,
                _ => self.operator(offset, function, vec![left, right])?,
            };
        }
        Ok(left)
    }

    /// Appends to an existing chain of the same operator, so that a long chain does not become a deep AST.
    fn logical(
        &mut self,
        offset: usize,
        operator: LogicalOperator,
        left: Expr,
        right: Expr,
    ) -> ParseResult<Expr> {
        let mut left = left;
        if let ExprKind::Logical {
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
        self.new_expr(offset, ExprKind::Logical { operator, terms })
    }

    fn binary_operator(&self) -> Option<(&'static str, u8)> {
        let TokenKind::Symbol(symbol) = self.peek().kind else {
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

    fn unary(&mut self) -> ParseResult<Expr> {
        let start = self.peek().start;
        for (symbol, function) in [("!", "!_"), ("-", "-_")] {
            let mut count = 0;
            while self.lookahead(count).kind == TokenKind::Symbol(symbol) {
                count += 1;
            }
            let is_negative_literal = symbol == "-"
                && count == 1
                && matches!(self.lookahead(1).kind, TokenKind::Int | TokenKind::Float);
            if count == 0 || is_negative_literal {
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

    fn member(&mut self) -> ParseResult<Expr> {
        let mut expr = self.primary()?;
        loop {
            expr = if let Some(offset) = self.accept(".") {
                self.select(expr, offset)?
            } else if let Some(offset) = self.accept("[") {
                let function = match self.accept("?") {
                    Some(_) => "_[?_]",
                    None => "_[_]",
                };
                let index = self.expression()?;
                self.expect("]")?;
                self.operator(offset, function, vec![expr, index])?
            } else {
                return Ok(expr);
            };
        }
    }

    fn select(&mut self, operand: Expr, offset: usize) -> ParseResult<Expr> {
        let optional = self.accept("?").is_some();
        let name = self.peek();
        match name.kind {
            TokenKind::Ident => {}
            TokenKind::EscapedIdent => {
                self.report(name.start, "unsupported syntax: '`'");
            }
            _ => {
                if optional {
                    let message = "mismatched input '{}' expecting {IDENTIFIER, ESC_IDENTIFIER}";
                    let message = message.replace("{}", &self.token_display(name));
                    self.report(name.start, format!("Syntax error: {message}"));
                    self.report(name.start, "unsupported ident kind");
                    return Err(ParseAbort);
                }
                let input = match name.kind {
                    TokenKind::Eof => ".".to_owned(),
                    _ => format!(".{}", self.token_display(name)),
                };
                return self.syntax_error(
                    name.start,
                    &format!("no viable alternative at input '{input}'"),
                );
            }
        }
        self.next += 1;
        let field: Arc<str> = self.token_text(name).into();
        let operand = Box::new(operand);
        if optional {
            return self.new_expr(offset, ExprKind::OptionalSelect { operand, field });
        }
        match self.accept("(") {
            Some(open) => {
                let args = self.arguments()?;
                macros::member_call(self, open, *operand, field, args)
            }
            None => self.new_expr(
                offset,
                ExprKind::Select {
                    operand,
                    field,
                    test_only: false,
                },
            ),
        }
    }

    fn arguments(&mut self) -> ParseResult<Vec<Expr>> {
        let mut args = Vec::new();
        if self.accept(")").is_some() {
            return Ok(args);
        }
        if !self.starts_operand(0) {
            return self.missing_operand(OPERAND_OR_CLOSE_TOKENS);
        }
        args.push(self.expression()?);
        while self.accept(",").is_some() {
            args.push(self.expression()?);
        }
        self.expect(")")?;
        Ok(args)
    }

    fn primary(&mut self) -> ParseResult<Expr> {
        self.skip_to_operand();
        let token = self.peek();
        match token.kind {
            TokenKind::Symbol("(") => {
                self.next += 1;
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            TokenKind::Symbol("[") => self.list(),
            TokenKind::Symbol("{") => self.map(),
            TokenKind::Symbol("true") => self.literal(Ok(Value::Bool(true))),
            TokenKind::Symbol("false") => self.literal(Ok(Value::Bool(false))),
            TokenKind::Symbol("null") => self.literal(Ok(Value::Null)),
            TokenKind::Symbol(".") | TokenKind::Ident => self.ident_or_call(),
            TokenKind::Symbol("-") => {
                self.next += 1;
                let number = self.token_text(self.peek());
                let value = match self.peek().kind {
                    TokenKind::Int => literals::int(&number, true),
                    TokenKind::Float => literals::float(&number, true),
                    _ => return self.missing_operand(OPERAND_TOKENS),
                };
                let expr = self.literal(value)?;
                Ok(Expr {
                    offset: token.start,
                    ..expr
                })
            }
            TokenKind::Int => self.literal(literals::int(&self.token_text(token), false)),
            TokenKind::Uint => self.literal(literals::uint(&self.token_text(token))),
            TokenKind::Float => self.literal(literals::float(&self.token_text(token), false)),
            TokenKind::String => self.literal(literals::string(&self.token_text(token))),
            TokenKind::Bytes => self.literal(literals::bytes(&self.token_text(token))),
            _ => self.missing_operand(OPERAND_TOKENS),
        }
    }

    fn literal(&mut self, value: Result<Value, &'static str>) -> ParseResult<Expr> {
        let offset = self.advance().start;
        let value = value.unwrap_or_else(|message| {
            self.report(offset, message);
            Value::Null
        });
        self.new_expr(offset, ExprKind::Literal(value))
    }

    /// Parses an identifier, a global call, or a message literal.
    fn ident_or_call(&mut self) -> ParseResult<Expr> {
        let dot = self.accept(".").map(|_| ".").unwrap_or_default();
        let first = self.peek();
        if first.kind != TokenKind::Ident {
            let input = match first.kind {
                TokenKind::Eof => ".".to_owned(),
                _ => format!(".{}", self.token_display(first)),
            };
            return self.syntax_error(
                first.start,
                &format!("no viable alternative at input '{input}'"),
            );
        }
        if let Some(length) = self.message_name_token_count() {
            return self.message(dot, length);
        }
        self.next += 1;
        let word = self.token_text(first);
        let name: Arc<str> = format!("{dot}{word}").into();
        let open = self.accept("(");
        if identifiers::is_reserved(&word) {
            self.report(first.start, format!("reserved identifier: {word}"));
        }
        match open {
            Some(open) => {
                let args = self.arguments()?;
                macros::global_call(self, open, name, args)
            }
            None => self.new_expr(first.start, ExprKind::Ident(name)),
        }
    }
}
