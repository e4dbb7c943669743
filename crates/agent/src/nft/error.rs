//! What can go wrong between this process and the kernel.

use std::io;

use rustix::io::Errno;

/// How much of a command people are shown.
const COMMAND_CHARACTERS_MAX: usize = 300;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the kernel cannot be told any rules: {}", reason(.0))]
    Connect(io::Error),
    #[error("rules cannot be sent to the kernel: {}", reason(.0))]
    Send(io::Error),
    #[error("the kernel has not answered for {0} s")]
    TimedOut(u64),
    #[error("the kernel does not say what became of the rules")]
    Silent,
    #[error("the kernel refused the rules: {}{}", words(*.why), at(.command.as_deref()))]
    Refused {
        why: Errno,
        /// The command that it refused, in the words of nft; `None` if it would not look at any.
        command: Option<String>,
    },
}

impl Error {
    /// Whether this process has no right to change rules.
    pub fn is_forbidden(&self) -> bool {
        match self {
            Error::Connect(error) => error.kind() == io::ErrorKind::PermissionDenied,
            // Of single commands, some are forbidden to everybody.
            Error::Refused { why, command } => *why == Errno::PERM && command.is_none(),
            Error::Send(_) | Error::TimedOut(_) | Error::Silent => false,
        }
    }
}

fn at(command: Option<&str>) -> String {
    let shown = command.map(|command| format!(" in: {}", shortened(command)));
    shown.unwrap_or_default()
}

fn words(why: Errno) -> String {
    reason(&why.into())
}

/// Without the number, which says nothing more.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(COMMAND_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_rights_is_told_apart_from_a_kernel_that_cannot() {
        let refused = |why, command: Option<&str>| Error::Refused {
            why,
            command: command.map(str::to_owned),
        };
        for (error, is_forbidden) in [
            (Error::Connect(Errno::PERM.into()), true),
            (Error::Connect(Errno::PROTONOSUPPORT.into()), false),
            (refused(Errno::PERM, None), true),
            (refused(Errno::OPNOTSUPP, None), false),
            (refused(Errno::PERM, Some("delete table inet x")), false),
        ] {
            assert_eq!(error.is_forbidden(), is_forbidden, "{error}");
        }
    }

    #[test]
    fn a_refusal_shows_the_command_that_it_is_about() {
        let long = format!("add element inet t s {{ {} }}", "1.2.3.4, ".repeat(100));
        for (why, command, shown) in [
            (
                Errno::NOENT,
                Some("add rule inet z x accept".to_owned()),
                "the kernel refused the rules: No such file or directory in: add rule inet z x accept",
            ),
            (
                Errno::OPNOTSUPP,
                None,
                "the kernel refused the rules: Operation not supported",
            ),
            (
                Errno::EXIST,
                Some(long.clone()),
                &format!(
                    "the kernel refused the rules: File exists in: {}...",
                    &long[..COMMAND_CHARACTERS_MAX]
                ),
            ),
        ] {
            assert_eq!(Error::Refused { why, command }.to_string(), shown);
        }
    }
}
