//! From tokens to a tree.
//!
//! Nesting is counted while parsing, so that neither this parser nor anything that later walks through the tree
//! can exhaust the stack.

use super::ast::{Element, Entry, Expr, FieldInit, Kind, Logic};
use super::issue::Issue;
use super::lexer::{Lexeme, Token, shown, tokens};
use super::{literal, macros};
use crate::limits;
use crate::value::Value;
use std::sync::Arc;

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
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
    "in",
];

const OPERAND: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";
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
    next: usize,
    nesting: usize,
    ids: usize,
    issues: Vec<Issue>,
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
    fn peek(&self) -> Lexeme {
        self.ahead(0)
    }

    fn ahead(&self, count: usize) -> Lexeme {
        let last = self.lexemes.len() - 1;
        self.lexemes[(self.next + count).min(last)]
    }

    fn advance(&mut self) -> Lexeme {
        let lexeme = self.peek();
        self.next += 1;
        lexeme
    }

    fn word(&self, lexeme: Lexeme) -> String {
        self.text[lexeme.start..lexeme.end].iter().collect()
    }

    fn accept(&mut self, symbol: &'static str) -> Option<usize> {
        let lexeme = self.peek();
        if lexeme.token != Token::Symbol(symbol) {
            return None;
        }
        self.next += 1;
        Some(lexeme.start)
    }

    /// What error messages call a token.
    fn name(&self, lexeme: Lexeme) -> String {
        match lexeme.token {
            Token::End => "<EOF>".to_owned(),
            _ => shown(&self.word(lexeme)),
        }
    }

    pub(super) fn note(&mut self, at: usize, message: impl Into<String>) {
        self.issues.push(Issue::at(at, message));
    }

    fn syntax<T>(&mut self, at: usize, message: &str) -> Step<T> {
        self.note(at, format!("Syntax error: {message}"));
        Err(Stop)
    }

    fn expect(&mut self, symbol: &'static str) -> Step<usize> {
        if let Some(at) = self.accept(symbol) {
            return Ok(at);
        }
        let found = self.peek();
        let name = self.name(found);
        if self.ahead(1).token == Token::Symbol(symbol) {
            self.note(
                found.start,
                format!("Syntax error: extraneous input '{name}' expecting '{symbol}'"),
            );
            self.next += 1;
            return Ok(self.advance().start);
        }
        match found.token {
            Token::End => self.syntax(found.start, &format!("missing '{symbol}' at '<EOF>'")),
            _ => self.syntax(
                found.start,
                &format!("mismatched input '{name}' expecting '{symbol}'"),
            ),
        }
    }

    fn end(&mut self) -> Step<()> {
        let found = self.peek();
        if found.token == Token::End {
            return Ok(());
        }
        let name = self.name(found);
        let problem = match self.ahead(1).token {
            Token::End => "extraneous",
            _ => "mismatched",
        };
        self.syntax(
            found.start,
            &format!("{problem} input '{name}' expecting <EOF>"),
        )
    }

    /// A new expression, unless there are too many or they are nested too deeply.
    pub(super) fn make(&mut self, at: usize, kind: Kind) -> Step<Expr> {
        let mut expr = Expr {
            id: self.ids,
            at,
            depth: 0,
            kind,
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

    /// A copy with numbers of its own.
    pub(super) fn copy(&mut self, expr: &Expr) -> Step<Expr> {
        let mut copy = expr.clone();
        self.renumber(&mut copy)?;
        Ok(copy)
    }

    fn renumber(&mut self, expr: &mut Expr) -> Step<()> {
        expr.id = self.ids;
        self.ids += 1;
        if self.ids > limits::NODES_MAX {
            self.issues
                .push(Issue::nowhere("max recursion depth exceeded"));
            return Err(Stop);
        }
        match &mut expr.kind {
            Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select { operand, .. } | Kind::OptionalSelect { operand, .. } => {
                self.renumber(operand)?;
            }
            Kind::Call { target, args, .. } => {
                for child in target.as_deref_mut().into_iter().chain(args) {
                    self.renumber(child)?;
                }
            }
            Kind::Logic { terms, .. } => {
                for term in terms {
                    self.renumber(term)?;
                }
            }
            Kind::List(elements) => {
                for element in elements {
                    self.renumber(&mut element.value)?;
                }
            }
            Kind::Map(entries) => {
                for entry in entries {
                    self.renumber(&mut entry.key)?;
                    self.renumber(&mut entry.value)?;
                }
            }
            Kind::Struct { fields, .. } => {
                for field in fields {
                    self.renumber(&mut field.value)?;
                }
            }
            Kind::Fold(fold) => {
                for child in [
                    &mut fold.range,
                    &mut fold.init,
                    &mut fold.condition,
                    &mut fold.step,
                    &mut fold.result,
                ] {
                    self.renumber(child)?;
                }
            }
        }
        Ok(())
    }

    fn expression(&mut self) -> Step<Expr> {
        self.nesting += 1;
        if self.nesting > limits::NESTING_MAX {
            self.issues.push(Issue::nowhere(format!(
                "expression recursion limit exceeded: {}",
                limits::NESTING_MAX
            )));
            return Err(Stop);
        }
        let condition = self.logic(Logic::Or)?;
        let expr = match self.accept("?") {
            Some(at) => {
                let then = self.logic(Logic::Or)?;
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

    fn logic(&mut self, operator: Logic) -> Step<Expr> {
        let symbol = match operator {
            Logic::Or => "||",
            Logic::And => "&&",
        };
        let term = |parser: &mut Parser| match operator {
            Logic::Or => parser.logic(Logic::And),
            Logic::And => parser.binary(0),
        };
        let first = term(self)?;
        let Some(at) = self.accept(symbol) else {
            return Ok(first);
        };
        let mut terms = vec![first, term(self)?];
        while self.accept(symbol).is_some() {
            terms.push(term(self)?);
        }
        self.make(at, Kind::Logic { operator, terms })
    }

    /// Comparisons, sums and products; each level binds tighter than the one before it.
    fn binary(&mut self, level: usize) -> Step<Expr> {
        let mut left = match level {
            2 => self.unary()?,
            _ => self.binary(level + 1)?,
        };
        while let Some(function) = self.binary_operator(level) {
            let at = self.advance().start;
            let right = match level {
                2 => self.unary()?,
                _ => self.binary(level + 1)?,
            };
            left = self.operator(at, function, vec![left, right])?;
        }
        Ok(left)
    }

    fn binary_operator(&self, level: usize) -> Option<&'static str> {
        let Token::Symbol(symbol) = self.peek().token else {
            return None;
        };
        Some(match (level, symbol) {
            (0, "<") => "_<_",
            (0, "<=") => "_<=_",
            (0, ">") => "_>_",
            (0, ">=") => "_>=_",
            (0, "==") => "_==_",
            (0, "!=") => "_!=_",
            (0, "in") => "@in",
            (1, "+") => "_+_",
            (1, "-") => "_-_",
            (2, "*") => "_*_",
            (2, "/") => "_/_",
            (2, "%") => "_%_",
            _ => return None,
        })
    }

    fn unary(&mut self) -> Step<Expr> {
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

    fn member(&mut self) -> Step<Expr> {
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

    fn select(&mut self, operand: Expr, at: usize) -> Step<Expr> {
        let optional = self.accept("?").is_some();
        let name = self.peek();
        match name.token {
            Token::Ident => {}
            Token::Quoted => {
                self.note(name.start, "unsupported syntax: '`'");
            }
            _ => {
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

    fn arguments(&mut self) -> Step<Vec<Expr>> {
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

    fn begins_operand(&self, ahead: usize) -> bool {
        match self.ahead(ahead).token {
            Token::Symbol(symbol) => matches!(
                symbol,
                "[" | "{" | "(" | "." | "-" | "!" | "true" | "false" | "null"
            ),
            Token::End | Token::Quoted => false,
            _ => true,
        }
    }

    fn no_operand<T>(&mut self, expected: &str) -> Step<T> {
        let found = self.peek();
        let name = self.name(found);
        let problem = match self.begins_operand(1) {
            true => "extraneous",
            false => "mismatched",
        };
        self.syntax(
            found.start,
            &format!("{problem} input '{name}' expecting {expected}"),
        )
    }

    fn primary(&mut self) -> Step<Expr> {
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

    fn literal(&mut self, value: Result<Value, &'static str>) -> Step<Expr> {
        let at = self.advance().start;
        let value = value.unwrap_or_else(|problem| {
            self.note(at, problem);
            Value::Null
        });
        self.make(at, Kind::Literal(value))
    }

    /// A variable, a call of a function, or a message.
    fn named(&mut self) -> Step<Expr> {
        let dot = self.accept(".").map(|_| ".").unwrap_or_default();
        let first = self.peek();
        if first.token != Token::Ident {
            let seen = format!(".{}", self.name(first));
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
        if RESERVED.contains(&word.as_str()) {
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

    /// How many tokens there are before the brace of `a.b.c{`.
    fn message_name_length(&self) -> Option<usize> {
        let mut length = 1;
        loop {
            match self.ahead(length).token {
                Token::Symbol("{") => return Some(length),
                Token::Symbol(".") if self.ahead(length + 1).token == Token::Ident => length += 2,
                _ => return None,
            }
        }
    }

    fn message(&mut self, dot: &str, length: usize) -> Step<Expr> {
        let mut name = dot.to_owned();
        for _ in 0..length {
            let lexeme = self.advance();
            name.push_str(&self.word(lexeme));
        }
        let at = self.expect("{")?;
        let mut fields = Vec::new();
        while self.peek().token != Token::Symbol("}") {
            let optional = self.accept("?").is_some();
            let field = self.peek();
            if field.token != Token::Ident {
                let name = self.name(field);
                return self.syntax(
                    field.start,
                    &format!("mismatched input '{name}' expecting {{'}}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}}"),
                );
            }
            self.next += 1;
            let colon = self.expect(":")?;
            fields.push(FieldInit {
                at: colon,
                optional,
                name: self.word(field).into(),
                value: self.expression()?,
            });
            if self.accept(",").is_none() {
                break;
            }
        }
        self.expect("}")?;
        self.make(
            at,
            Kind::Struct {
                name: name.into(),
                fields,
            },
        )
    }

    fn list(&mut self) -> Step<Expr> {
        let at = self.advance().start;
        let mut elements = Vec::new();
        while self.peek().token != Token::Symbol("]") {
            let optional = self.accept("?").is_some();
            let value = self.expression()?;
            elements.push(Element { optional, value });
            if self.accept(",").is_none() {
                break;
            }
        }
        self.expect("]")?;
        self.make(at, Kind::List(elements))
    }

    fn map(&mut self) -> Step<Expr> {
        let at = self.advance().start;
        let mut entries = Vec::new();
        while self.peek().token != Token::Symbol("}") {
            let optional = self.accept("?").is_some();
            let key = self.expression()?;
            self.expect(":")?;
            let value = self.expression()?;
            entries.push(Entry {
                optional,
                key,
                value,
            });
            if self.accept(",").is_none() {
                break;
            }
        }
        self.expect("}")?;
        self.make(at, Kind::Map(entries))
    }
}
