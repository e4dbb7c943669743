//! What can go wrong with nft.

use std::path::PathBuf;

/// How much of a line people are shown.
const LINE_CHARACTERS_MAX: usize = 300;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "there is no program {}: install nftables (the package is called nftables on most systems), or say where it is with --nft",
        .0.display()
    )]
    NotFound(PathBuf),
    #[error("{} cannot be run: {error}", .program.display())]
    Start {
        program: PathBuf,
        error: std::io::Error,
    },
    #[error("nft has not answered for {0} s and was stopped")]
    TimedOut(u64),
    #[error("nft refused the rules: {message}{}", at(.line.as_deref()))]
    Refused {
        message: String,
        /// The line of the script that it complains of.
        line: Option<String>,
    },
}

fn at(line: Option<&str>) -> String {
    line.map(|line| format!(" in: {line}")).unwrap_or_default()
}

/// What nft said of one line of a script, which are counted from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Complaint<'a> {
    pub(super) line: usize,
    pub(super) message: &'a str,
}

/// What nft says has the form `/dev/stdin:12:1-20: Error: ...`, with the line and a mark beneath it.
pub(super) fn complaints(said: &str) -> impl Iterator<Item = Complaint<'_>> {
    said.lines().filter_map(|text| {
        let (place, message) = text.split_once(": Error: ")?;
        let line = place.split(':').nth(1)?.parse().ok()?;
        Some(Complaint { line, message })
    })
}

impl Error {
    /// Of what nft said about a script.
    pub(super) fn refused(said: &str, script: &str) -> Error {
        match complaints(said).next() {
            Some(first) => Error::Refused {
                message: first.message.to_owned(),
                line: first
                    .line
                    .checked_sub(1)
                    .and_then(|before| script.lines().nth(before))
                    .map(shortened),
            },
            None => Error::Refused {
                message: shortened(said.trim()),
                line: None,
            },
        }
    }
}

fn shortened(text: &str) -> String {
    let text = text.replace('\n', "; ");
    match text.char_indices().nth(LINE_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_shows_the_line_that_it_is_about() {
        let long = format!("add element inet t s {{ {} }}", "1.2.3.4, ".repeat(100));
        for (said, script, shown) in [
            (
                "/dev/stdin:2:17-17: Error: No such file or directory; did you mean chain ‘a’?\nadd rule x\n   ^\n",
                "add table inet z\nadd rule inet z x accept\n",
                "nft refused the rules: No such file or directory; did you mean chain ‘a’? in: add rule inet z x accept",
            ),
            (
                "/dev/stdin:9:1-2: Error: odd",
                "one line",
                "nft refused the rules: odd",
            ),
            (
                "netlink: Error: cache initialization failed: Protocol not supported\n",
                "one line",
                "nft refused the rules: netlink: Error: cache initialization failed: Protocol not supported",
            ),
            ("a\nb\n", "", "nft refused the rules: a; b"),
            (
                "/dev/stdin:1:1-2: Error: odd",
                &long,
                &format!(
                    "nft refused the rules: odd in: {}...",
                    &long[..LINE_CHARACTERS_MAX]
                ),
            ),
        ] {
            assert_eq!(Error::refused(said, script).to_string(), shown);
        }
    }
}
