//! Kills a process that writes to an embedded store with SIGKILL, again and again, and looks at what is left.
//!
//! The parent starts this program again as a child. The child writes with many writers and says on its
//! standard output what was acknowledged. The parent kills it at a random moment, also while it recovers
//! from the kill before, and then holds the store to what the child had said.
//!
//! `cargo test` runs 50 rounds; `cargo xtask torture` as many as it is told.

mod child;
mod parent;

use std::path::PathBuf;
use std::process::ExitCode;

const ROUNDS: usize = 50;

/// What this process is to do.
enum Part {
    Child(PathBuf),
    Parent {
        rounds: usize,
    },
    /// `cargo test NAME` runs every test program; the name may mean another one.
    Nothing,
}

fn part(arguments: impl Iterator<Item = String>) -> Part {
    let mut rounds = ROUNDS;
    let mut arguments = arguments.peekable();
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), arguments.peek()) {
            ("--child", Some(directory)) => return Part::Child(directory.into()),
            ("--rounds", Some(count)) => {
                rounds = count.parse().expect("--rounds takes a number");
                arguments.next();
            }
            ("--list", _) => return Part::Nothing,
            (name, _) if !name.starts_with('-') && !"torture".contains(name) => {
                return Part::Nothing;
            }
            _ => {}
        }
    }
    Part::Parent { rounds }
}

#[tokio::main]
async fn main() -> ExitCode {
    match part(std::env::args().skip(1)) {
        Part::Nothing => ExitCode::SUCCESS,
        Part::Child(directory) => {
            child::write_until_killed(&directory).await;
            ExitCode::SUCCESS
        }
        Part::Parent { rounds } => match parent::torture(rounds).await {
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
