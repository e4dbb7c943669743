//! Errors of the parser and the checker, displayed as cel-go does: the source line with a caret below the location
//! (cel-go: `common.Error`, `cel.Issues`).

/// The source location of an issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceLocation {
    /// In characters.
    Offset(usize),
    NoLocation,
}

#[derive(Clone, Debug)]
pub(crate) struct CompileIssue {
    pub(crate) location: SourceLocation,
    pub(crate) message: String,
}

const ISSUES_SHOWN_MAX: usize = 100;
/// Longer source lines are not displayed.
const LINE_BYTES_MAX: usize = 16_384;

impl CompileIssue {
    pub(crate) fn at(offset: usize, message: impl Into<String>) -> CompileIssue {
        CompileIssue {
            location: SourceLocation::Offset(offset),
            message: message.into(),
        }
    }

    pub(crate) fn without_location(message: impl Into<String>) -> CompileIssue {
        CompileIssue {
            location: SourceLocation::NoLocation,
            message: message.into(),
        }
    }
}

/// Displays all issues in the order of their locations.
pub(crate) fn display_issues(text: &str, issues: &[CompileIssue]) -> String {
    let mut located: Vec<(i64, usize, &CompileIssue)> = issues
        .iter()
        .take(ISSUES_SHOWN_MAX)
        .map(|issue| {
            let (line, column) = line_and_column(text, issue.location);
            (line, column, issue)
        })
        .collect();
    located.sort_by_key(|(line, column, _)| (*line, *column));
    let mut displayed: Vec<String> = located
        .into_iter()
        .map(|(line, column, issue)| display_issue(text, line, column, &issue.message))
        .collect();
    if issues.len() > ISSUES_SHOWN_MAX {
        let more = issues.len() - ISSUES_SHOWN_MAX;
        displayed.push(format!("{more} more errors were truncated"));
    }
    displayed.join("\n")
}

fn line_and_column(text: &str, location: SourceLocation) -> (i64, usize) {
    let SourceLocation::Offset(offset) = location else {
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

fn display_issue(text: &str, line: i64, column: usize, message: &str) -> String {
    // Without a location, the column is 0.
    let shown_column = if line < 0 { 0 } else { column + 1 };
    let head = format!("ERROR: <input>:{line}:{shown_column}: {message}");
    let source = usize::try_from(line - 1)
        .ok()
        .and_then(|index| text.split('\n').nth(index));
    match source {
        Some(source) if source.len() <= LINE_BYTES_MAX => {
            let source = source.replace('\t', " ");
            let caret_line = caret_line(&source, column);
            format!("{head}\n | {source}\n | {caret_line}")
        }
        _ => head,
    }
}

/// Dots up to the column, then a caret; full-width ones below multi-byte characters.
fn caret_line(source: &str, column: usize) -> String {
    let is_wide = |character: Option<char>| character.is_some_and(|c| c.len_utf8() > 1);
    let mut characters = source.chars();
    let mut caret_line = String::new();
    for _ in 0..column {
        let Some(character) = characters.next() else {
            break;
        };
        caret_line.push(if is_wide(Some(character)) { '．' } else { '.' });
    }
    caret_line.push(if is_wide(characters.next()) {
        '＾'
    } else {
        '^'
    });
    caret_line
}
