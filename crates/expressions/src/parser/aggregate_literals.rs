//! Parses list, map and message literals.

use super::lexer::TokenKind;
use super::{ParseResult, Parser};
use crate::ast::{Expr, ExprKind, ListElement, MapEntry, StructField};

impl Parser {
    /// The number of tokens of the message name in `a.b.c{`, if this is a message literal.
    pub(super) fn message_name_token_count(&self) -> Option<usize> {
        let mut length = 1;
        loop {
            match self.lookahead(length).kind {
                TokenKind::Symbol("{") => return Some(length),
                TokenKind::Symbol(".") if self.lookahead(length + 1).kind == TokenKind::Ident => {
                    length += 2;
                }
                _ => return None,
            }
        }
    }

    pub(super) fn message(&mut self, dot: &str, length: usize) -> ParseResult<Expr> {
        let mut name = dot.to_owned();
        for _ in 0..length {
            let token = self.advance();
            name.push_str(&self.token_text(token));
        }
        let offset = self.expect("{")?;
        let mut fields = Vec::new();
        while self.has_next_item("}", fields.is_empty()) {
            let optional = self.accept("?").is_some();
            let field = self.peek();
            if field.kind != TokenKind::Ident {
                let name = self.token_display(field);
                return self.syntax_error(
                    field.start,
                    &format!("mismatched input '{name}' expecting {{'}}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}}"),
                );
            }
            self.next += 1;
            let colon = self.expect(":")?;
            fields.push(StructField {
                offset: colon,
                optional,
                name: self.token_text(field).into(),
                value: self.expression()?,
            });
            if !self.accept_separator("}")? {
                break;
            }
        }
        self.expect("}")?;
        self.new_expr(
            offset,
            ExprKind::Struct {
                name: name.into(),
                fields,
            },
        )
    }

    pub(super) fn list(&mut self) -> ParseResult<Expr> {
        let offset = self.advance().start;
        let mut elements = Vec::new();
        while self.has_next_item("]", elements.is_empty()) {
            let optional = self.accept("?").is_some();
            let value = self.expression()?;
            elements.push(ListElement { optional, value });
            if !self.accept_separator("]")? {
                break;
            }
        }
        self.expect("]")?;
        self.new_expr(offset, ExprKind::List(elements))
    }

    pub(super) fn map(&mut self) -> ParseResult<Expr> {
        let offset = self.advance().start;
        let mut entries = Vec::new();
        while self.has_next_item("}", entries.is_empty()) {
            let optional = self.accept("?").is_some();
            let key = self.expression()?;
            self.expect(":")?;
            let value = self.expression()?;
            entries.push(MapEntry {
                optional,
                key,
                value,
            });
            if !self.accept_separator("}")? {
                break;
            }
        }
        self.expect("}")?;
        self.new_expr(offset, ExprKind::Map(entries))
    }
}
