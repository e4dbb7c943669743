//! Repeatedly kills a process that writes to an embedded store with SIGKILL, and verifies the store afterwards.
//!
//! The parent starts this program again as a child. The child runs many writers and prints acknowledged commits to its
//! standard output. The parent kills it at a random time, also during recovery from the previous kill, and then checks
//! that the store contains everything the child has printed.
//!
//! `cargo test` runs 50 rounds; `cargo xtask torture` runs a given number.

mod child;
mod parent;

use std::path::PathBuf;
use std::process::ExitCode;

const ROUNDS: usize = 50;

/// The role of this process.
enum ProcessRole {
    Child(PathBuf),
    Parent {
        rounds: usize,
    },
    /// Do nothing: `cargo test NAME` runs every test program, and the name may select another test.
    Skip,
}

fn process_role(arguments: impl Iterator<Item = String>) -> ProcessRole {
    let mut rounds = ROUNDS;
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), arguments.peek()) {
            ("--child", Some(directory)) => return ProcessRole::Child(directory.into()),
            ("--rounds", Some(count)) => {
                rounds = count.parse().expect("--rounds takes a number");
                arguments.next();
            }
            ("--list", _) => return ProcessRole::Skip,
            (name, _) if !name.starts_with('-') && !"torture".contains(name) => {
                return ProcessRole::Skip;
            }
            _ => {}
        }
    }
    ProcessRole::Parent { rounds }
}

#[tokio::main]
async fn main() -> ExitCode {
    match process_role(std::env::args().skip(1)) {
        ProcessRole::Skip => ExitCode::SUCCESS,
        ProcessRole::Child(directory) => {
            child::write_until_killed(&directory).await;
            ExitCode::SUCCESS
        }
        ProcessRole::Parent { rounds } => match parent::torture(rounds).await {
            Ok(summary) => {
                println!("{summary}\ntorture: 1 passed, 0 failed");
                ExitCode::SUCCESS
            }
            Err(violation) => {
                println!("{violation}\ntorture: 0 passed, 1 failed");
                ExitCode::FAILURE
            }
        },
    }
}
