//! Syntax errors and recovery from them, with the messages of the ANTLR parser that cel-go uses.

use super::lexer::TokenKind;
use super::{OPERAND_TOKENS, ParseResult, Parser};

impl Parser {
    pub(super) fn expect(&mut self, symbol: &'static str) -> ParseResult<usize> {
        if let Some(offset) = self.accept(symbol) {
            return Ok(offset);
        }
        let token = self.peek();
        let name = self.token_display(token);
        // A missing symbol is inserted if the next token may follow it.
        let is_missing = match symbol {
            ":" => self.starts_operand(0),
            ")" | "]" => token.kind == TokenKind::Eof,
            _ => false,
        };
        if is_missing {
            self.report(
                token.start,
                format!("Syntax error: missing '{symbol}' at '{name}'"),
            );
            return Ok(token.start);
        }
        let expected = format!("'{symbol}'");
        if self.skip_extraneous_token(&expected, &[symbol]) {
            return Ok(self.advance().start);
        }
        self.mismatched_input(&expected)
    }

    /// Skips the current token and reports it if one of these symbols follows.
    pub(super) fn skip_extraneous_token(
        &mut self,
        expected: &str,
        symbols: &[&'static str],
    ) -> bool {
        let token = self.peek();
        let follows =
            matches!(self.lookahead(1).kind, TokenKind::Symbol(next) if symbols.contains(&next));
        if !follows || token.kind == TokenKind::Eof {
            return false;
        }
        let name = self.token_display(token);
        self.report(
            token.start,
            format!("Syntax error: extraneous input '{name}' expecting {expected}"),
        );
        self.next += 1;
        true
    }

    pub(super) fn mismatched_input<T>(&mut self, expected: &str) -> ParseResult<T> {
        let token = self.peek();
        let name = self.token_display(token);
        self.syntax_error(
            token.start,
            &format!("mismatched input '{name}' expecting {expected}"),
        )
    }

    /// Consumes the comma after an item. Returns false at the closing bracket.
    pub(super) fn accept_separator(&mut self, close: &'static str) -> ParseResult<bool> {
        if self.accept(",").is_some() {
            return Ok(true);
        }
        let expected = format!("{{'{close}', ','}}");
        if self.peek().kind == TokenKind::Symbol(close) {
            return Ok(false);
        }
        match self.skip_extraneous_token(&expected, &[close, ","]) {
            true => self.accept_separator(close),
            false => self.mismatched_input(&expected),
        }
    }

    /// Whether another item follows. A lone comma is consumed and ends the list.
    pub(super) fn has_next_item(&mut self, close: &'static str, first: bool) -> bool {
        if first && self.peek().kind == TokenKind::Symbol(",") {
            self.next += 1;
            return false;
        }
        let kind = self.peek().kind;
        kind != TokenKind::Symbol(close) && (first || kind != TokenKind::Symbol(","))
    }

    pub(super) fn expect_eof(&mut self) -> ParseResult<()> {
        let token = self.peek();
        if token.kind == TokenKind::Eof {
            return Ok(());
        }
        let name = self.token_display(token);
        let message = match self.lookahead(1).kind {
            TokenKind::Eof => "extraneous",
            _ => "mismatched",
        };
        self.syntax_error(
            token.start,
            &format!("{message} input '{name}' expecting <EOF>"),
        )
    }

    pub(super) fn starts_operand(&self, distance: usize) -> bool {
        match self.lookahead(distance).kind {
            TokenKind::Symbol(symbol) => matches!(
                symbol,
                "[" | "{" | "(" | "." | "-" | "!" | "true" | "false" | "null"
            ),
            TokenKind::Eof | TokenKind::EscapedIdent => false,
            _ => true,
        }
    }

    pub(super) fn missing_operand<T>(&mut self, expected: &str) -> ParseResult<T> {
        let token = self.peek();
        let name = self.token_display(token);
        self.syntax_error(
            token.start,
            &format!("mismatched input '{name}' expecting {expected}"),
        )
    }

    /// Skips an extraneous token before an operand and reports it.
    pub(super) fn skip_to_operand(&mut self) -> bool {
        let token = self.peek();
        if token.kind == TokenKind::Eof || self.starts_operand(0) || !self.starts_operand(1) {
            return false;
        }
        let name = self.token_display(token);
        self.report(
            token.start,
            format!("Syntax error: extraneous input '{name}' expecting {OPERAND_TOKENS}"),
        );
        self.next += 1;
        true
    }
}
