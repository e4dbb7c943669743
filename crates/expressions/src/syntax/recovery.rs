//! What is said when a token is not the one that was wanted, and how parsing goes on.

use super::lexer::Token;
use super::parser::{OPERAND, Parser, Step};

impl Parser {
    pub(super) fn expect(&mut self, symbol: &'static str) -> Step<usize> {
        if let Some(at) = self.accept(symbol) {
            return Ok(at);
        }
        let found = self.peek();
        let name = self.name(found);
        // One that is missing is taken as there if what follows would be right after it.
        let is_missing = match symbol {
            ":" => self.begins_operand(0),
            ")" | "]" => found.token == Token::End,
            _ => false,
        };
        if is_missing {
            self.note(
                found.start,
                format!("Syntax error: missing '{symbol}' at '{name}'"),
            );
            return Ok(found.start);
        }
        let expected = format!("'{symbol}'");
        if self.skips(&expected, &[symbol]) {
            return Ok(self.advance().start);
        }
        self.mismatched(&expected)
    }

    /// Skips one token if it stands before one of these, and says so.
    pub(super) fn skips(&mut self, expected: &str, symbols: &[&'static str]) -> bool {
        let found = self.peek();
        let follows = matches!(self.ahead(1).token, Token::Symbol(next) if symbols.contains(&next));
        if !follows || found.token == Token::End {
            return false;
        }
        let name = self.name(found);
        self.note(
            found.start,
            format!("Syntax error: extraneous input '{name}' expecting {expected}"),
        );
        self.next += 1;
        true
    }

    pub(super) fn mismatched<T>(&mut self, expected: &str) -> Step<T> {
        let found = self.peek();
        let name = self.name(found);
        self.syntax(
            found.start,
            &format!("mismatched input '{name}' expecting {expected}"),
        )
    }

    /// Goes on after an item: to the next one, or to the end. Says whether there may be another item.
    pub(super) fn separator(&mut self, close: &'static str) -> Step<bool> {
        if self.accept(",").is_some() {
            return Ok(true);
        }
        let expected = format!("{{'{close}', ','}}");
        if self.peek().token == Token::Symbol(close) {
            return Ok(false);
        }
        match self.skips(&expected, &[close, ","]) {
            true => self.separator(close),
            false => self.mismatched(&expected),
        }
    }

    /// Whether there is another item. A comma by itself ends the list as well.
    pub(super) fn has_item(&mut self, close: &'static str, first: bool) -> bool {
        if first && self.peek().token == Token::Symbol(",") {
            self.next += 1;
            return false;
        }
        let found = self.peek().token;
        found != Token::Symbol(close) && (first || found != Token::Symbol(","))
    }

    pub(super) fn end(&mut self) -> Step<()> {
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

    pub(super) fn begins_operand(&self, ahead: usize) -> bool {
        match self.ahead(ahead).token {
            Token::Symbol(symbol) => matches!(
                symbol,
                "[" | "{" | "(" | "." | "-" | "!" | "true" | "false" | "null"
            ),
            Token::End | Token::Quoted => false,
            _ => true,
        }
    }

    pub(super) fn no_operand<T>(&mut self, expected: &str) -> Step<T> {
        let found = self.peek();
        let name = self.name(found);
        self.syntax(
            found.start,
            &format!("mismatched input '{name}' expecting {expected}"),
        )
    }

    /// Skips a token that stands before an operand.
    pub(super) fn skip_to_operand(&mut self) -> bool {
        let found = self.peek();
        if found.token == Token::End || self.begins_operand(0) || !self.begins_operand(1) {
            return false;
        }
        let name = self.name(found);
        self.note(
            found.start,
            format!("Syntax error: extraneous input '{name}' expecting {OPERAND}"),
        );
        self.next += 1;
        true
    }
}
