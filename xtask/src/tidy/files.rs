//! Checks of single files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::commands::root;

/// Maximum number of lines; longer files should be split.
const LINES_MAX: usize = 500;

/// Markers that no source file may contain. Written so that this file passes.
const LEFTOVERS: [&str; 6] = [
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("#[ign", "ore"),
];

/// Lints required in every crate that runs in the server: bad input must cause an error, not a panic.
const NO_CRASHES: &str = "#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]";

/// Crates that only tests use, which may panic.
const TEST_CRATES: [&str; 2] = ["etcd-harness", "store-conformance"];

pub(super) fn check(files: &[PathBuf]) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| is_source(file)) {
        let path = root().join(file);
        let text = fs::read_to_string(path).with_context(|| file.display().to_string())?;
        findings.extend(check_source(file, &text));
    }
    Ok(findings)
}

fn is_source(file: &Path) -> bool {
    file.extension()
        .is_some_and(|extension| extension == "rs" || extension == "go")
}

fn check_source(file: &Path, text: &str) -> Vec<String> {
    let name = file.display();
    let mut findings = Vec::new();
    let lines = text.lines().count();
    if lines > LINES_MAX {
        findings.push(format!(
            "{name}: {lines} lines, at most {LINES_MAX}: split it"
        ));
    }
    for (index, line) in text.lines().enumerate() {
        for word in LEFTOVERS.iter().filter(|word| line.contains(**word)) {
            findings.push(format!("{name}:{}: {word}", index + 1));
        }
    }
    if is_root_of_a_server_crate(file) && !text.contains(NO_CRASHES) {
        findings.push(format!(
            "{name}: the lints against crashes are missing: {NO_CRASHES}"
        ));
    }
    findings
}

/// Whether the file is the root of a library or of the binary, except crates for tests and tasks.
fn is_root_of_a_server_crate(file: &Path) -> bool {
    let parts: Vec<_> = file.iter().filter_map(|part| part.to_str()).collect();
    match parts[..] {
        ["crates", name, "src", "lib.rs" | "main.rs"] => !TEST_CRATES.contains(&name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(file: &str, text: &str) -> usize {
        check_source(Path::new(file), text).len()
    }

    #[test]
    fn leftover_markers_and_long_files_are_found() {
        let file = "crates/store/src/error.rs";
        assert_eq!(check_text(file, concat!("tod", "o!()\n")), 1);
        assert_eq!(check_text(file, "fn f() {}\n"), 0);
        assert_eq!(check_text(file, &"\n".repeat(LINES_MAX + 1)), 1);
    }

    #[test]
    fn a_server_crate_without_the_lints_against_crashes_is_found() {
        for file in ["crates/store/src/lib.rs", "crates/rhumb/src/main.rs"] {
            assert_eq!(check_text(file, "mod a;\n"), 1);
            assert_eq!(check_text(file, &format!("{NO_CRASHES}\nmod a;\n")), 0);
        }
        assert_eq!(
            check_text("crates/store-conformance/src/lib.rs", "mod a;\n"),
            0
        );
        assert_eq!(check_text("xtask/src/main.rs", "mod a;\n"), 0);
    }
}
