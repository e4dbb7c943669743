//! Errors of the communication with nftables in the kernel.

use std::io;

use rustix::io::Errno;

/// Longer commands are truncated in error messages.
const COMMAND_CHARACTERS_MAX: usize = 300;

#[derive(Debug, thiserror::Error)]
pub enum NftablesError {
    #[error("failed to open a netlink socket for nftables: {}", reason(.0))]
    Connect(io::Error),
    #[error("failed to send rules to the kernel: {}", reason(.0))]
    Send(io::Error),
    #[error("the kernel did not answer within {0} s")]
    TimedOut(u64),
    #[error("the kernel did not acknowledge the rules")]
    NoAnswer,
    #[error("the kernel rejected the rules: {}{}", errno_text(*.why), at(.command.as_deref()))]
    Rejected {
        why: Errno,
        /// The rejected command in nft syntax; `None` if the whole batch was rejected.
        command: Option<String>,
    },
}

impl NftablesError {
    /// Whether this process lacks the permission to change rules.
    pub fn is_permission_denied(&self) -> bool {
        match self {
            NftablesError::Connect(error) => error.kind() == io::ErrorKind::PermissionDenied,
            // EPERM for a single command does not count: some commands are forbidden to every process.
            NftablesError::Rejected { why, command } => *why == Errno::PERM && command.is_none(),
            NftablesError::Send(_) | NftablesError::TimedOut(_) | NftablesError::NoAnswer => false,
        }
    }
}

fn at(command: Option<&str>) -> String {
    let shown = command.map(|command| format!(" in: {}", shortened(command)));
    shown.unwrap_or_default()
}

fn errno_text(why: Errno) -> String {
    reason(&why.into())
}

/// The error text without the redundant errno number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((errno_text, _)) => errno_text.to_owned(),
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
    fn missing_permission_differs_from_missing_kernel_support() {
        let refused = |why, command: Option<&str>| NftablesError::Rejected {
            why,
            command: command.map(str::to_owned),
        };
        for (error, is_forbidden) in [
            (NftablesError::Connect(Errno::PERM.into()), true),
            (NftablesError::Connect(Errno::PROTONOSUPPORT.into()), false),
            (refused(Errno::PERM, None), true),
            (refused(Errno::OPNOTSUPP, None), false),
            (refused(Errno::PERM, Some("delete table inet x")), false),
        ] {
            assert_eq!(error.is_permission_denied(), is_forbidden, "{error}");
        }
    }

    #[test]
    fn rejection_shows_the_rejected_command() {
        let long = format!("add element inet t s {{ {} }}", "1.2.3.4, ".repeat(100));
        for (why, command, shown) in [
            (
                Errno::NOENT,
                Some("add rule inet z x accept".to_owned()),
                "the kernel rejected the rules: No such file or directory in: add rule inet z x accept",
            ),
            (
                Errno::OPNOTSUPP,
                None,
                "the kernel rejected the rules: Operation not supported",
            ),
            (
                Errno::EXIST,
                Some(long.clone()),
                &format!(
                    "the kernel rejected the rules: File exists in: {}...",
                    &long[..COMMAND_CHARACTERS_MAX]
                ),
            ),
        ] {
            assert_eq!(NftablesError::Rejected { why, command }.to_string(), shown);
        }
    }
}
