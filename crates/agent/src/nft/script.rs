//! Text for nft, line by line.

use std::fmt::{self, Display, Write as _};

/// Elements on one line: when nft complains of a line, people should be able to read it.
const ELEMENTS_A_LINE: usize = 64;

/// Commands that are carried out together or not at all.
#[derive(Debug, Default)]
pub(super) struct Script(String);

impl Script {
    pub(super) fn line(&mut self, line: fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.0.write_fmt(line);
        self.0.push('\n');
    }

    /// `head { a, b, c }`, over as many lines as it takes; nothing if there are no elements.
    pub(super) fn elements<E: Display>(
        &mut self,
        head: fmt::Arguments<'_>,
        elements: impl IntoIterator<Item = E>,
    ) {
        let mut elements = elements.into_iter().enumerate().peekable();
        if elements.peek().is_none() {
            return;
        }
        let _ = write!(self.0, "{head} {{ ");
        for (index, element) in elements {
            match index {
                0 => {}
                _ if index % ELEMENTS_A_LINE == 0 => self.0.push_str(",\n"),
                _ => self.0.push_str(", "),
            }
            let _ = write!(self.0, "{element}");
        }
        self.0.push_str(" }\n");
    }

    pub(super) fn text(self) -> String {
        self.0
    }
}
