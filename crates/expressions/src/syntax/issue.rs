//! What is wrong with an expression, and how it is shown: the line, and a mark below the place.

/// Where in a text an issue is. Some concern the text as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// An offset in characters.
    At(usize),
    Nowhere,
}

#[derive(Clone, Debug)]
pub(crate) struct Issue {
    pub(crate) place: Place,
    pub(crate) message: String,
}

const ISSUES_SHOWN_MAX: usize = 100;
/// A longer line is not shown.
const LINE_BYTES_MAX: usize = 16_384;

impl Issue {
    pub(crate) fn at(offset: usize, message: impl Into<String>) -> Issue {
        Issue {
            place: Place::At(offset),
            message: message.into(),
        }
    }

    pub(crate) fn nowhere(message: impl Into<String>) -> Issue {
        Issue {
            place: Place::Nowhere,
            message: message.into(),
        }
    }
}

/// All issues of a text, in the order of their places.
pub(crate) fn show(text: &str, issues: &[Issue]) -> String {
    let mut placed: Vec<(i64, usize, &Issue)> = issues
        .iter()
        .take(ISSUES_SHOWN_MAX)
        .map(|issue| {
            let (line, column) = line_and_column(text, issue.place);
            (line, column, issue)
        })
        .collect();
    placed.sort_by_key(|(line, column, _)| (*line, *column));
    let mut shown: Vec<String> = placed
        .into_iter()
        .map(|(line, column, issue)| show_one(text, line, column, &issue.message))
        .collect();
    if issues.len() > ISSUES_SHOWN_MAX {
        let more = issues.len() - ISSUES_SHOWN_MAX;
        shown.push(format!("{more} more errors were truncated"));
    }
    shown.join("\n")
}

fn line_and_column(text: &str, place: Place) -> (i64, usize) {
    let Place::At(offset) = place else {
        return (-1, 0);
    };
    let mut line = 1;
    let mut column = 0;
    for character in text.chars().take(offset) {
        if character == '\n' {
            line += 1;
            column = 0;
        } else {
            column += 1;
        }
    }
    (line, column)
}

fn show_one(text: &str, line: i64, column: usize, message: &str) -> String {
    // Without a place, the column is not counted from one either.
    let shown_column = if line < 0 { 0 } else { column + 1 };
    let head = format!("ERROR: <input>:{line}:{shown_column}: {message}");
    let source = usize::try_from(line - 1)
        .ok()
        .and_then(|index| text.split('\n').nth(index));
    match source {
        Some(source) if source.len() <= LINE_BYTES_MAX => {
            let source = source.replace('\t', " ");
            let mark = mark(&source, column);
            format!("{head}\n | {source}\n | {mark}")
        }
        _ => head,
    }
}

/// Dots up to the column, then an arrow; wide ones below characters that are wide.
fn mark(source: &str, column: usize) -> String {
    let is_wide = |character: Option<char>| character.is_some_and(|c| c.len_utf8() > 1);
    let mut characters = source.chars();
    let mut mark = String::new();
    for _ in 0..column {
        let Some(character) = characters.next() else {
            break;
        };
        mark.push(if is_wide(Some(character)) { '．' } else { '.' });
    }
    mark.push(if is_wide(characters.next()) {
        '＾'
    } else {
        '^'
    });
    mark
}
