//! Lists, maps and messages.

use super::ast::{Element, Entry, Expr, FieldInit, Kind};
use super::lexer::Token;
use super::parser::{Parser, Step};

impl Parser {
    /// How many tokens there are before the brace of `a.b.c{`.
    pub(super) fn message_name_length(&self) -> Option<usize> {
        let mut length = 1;
        loop {
            match self.ahead(length).token {
                Token::Symbol("{") => return Some(length),
                Token::Symbol(".") if self.ahead(length + 1).token == Token::Ident => length += 2,
                _ => return None,
            }
        }
    }

    pub(super) fn message(&mut self, dot: &str, length: usize) -> Step<Expr> {
        let mut name = dot.to_owned();
        for _ in 0..length {
            let lexeme = self.advance();
            name.push_str(&self.word(lexeme));
        }
        let at = self.expect("{")?;
        let mut fields = Vec::new();
        while self.has_item("}", fields.is_empty()) {
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
            if !self.separator("}")? {
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

    pub(super) fn list(&mut self) -> Step<Expr> {
        let at = self.advance().start;
        let mut elements = Vec::new();
        while self.has_item("]", elements.is_empty()) {
            let optional = self.accept("?").is_some();
            let value = self.expression()?;
            elements.push(Element { optional, value });
            if !self.separator("]")? {
                break;
            }
        }
        self.expect("]")?;
        self.make(at, Kind::List(elements))
    }

    pub(super) fn map(&mut self) -> Step<Expr> {
        let at = self.advance().start;
        let mut entries = Vec::new();
        while self.has_item("}", entries.is_empty()) {
            let optional = self.accept("?").is_some();
            let key = self.expression()?;
            self.expect(":")?;
            let value = self.expression()?;
            entries.push(Entry {
                optional,
                key,
                value,
            });
            if !self.separator("}")? {
                break;
            }
        }
        self.expect("}")?;
        self.make(at, Kind::Map(entries))
    }
}
