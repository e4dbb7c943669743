//! Each file by itself.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::steps::root;

/// A longer file has more than one reason to change.
const LINES_MAX: usize = 500;

/// Never in a source file. Written so that this file passes.
const LEFTOVERS: [&str; 6] = [
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("dbg", "!("),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("#[ign", "ore"),
];

/// Not in code that runs in the server: bad input must end in an error, not in a crash.
const CRASHES: [&str; 3] = [".unwrap()", ".expect(\"", concat!("pan", "ic!(")];

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
    let mut in_tests = !runs_in_the_server(file);
    for (index, line) in text.lines().enumerate() {
        // Tests stand at the end of a file.
        in_tests |= line.trim() == "#[cfg(test)]";
        let crashes = CRASHES.iter().filter(|_| !in_tests);
        for word in LEFTOVERS
            .iter()
            .chain(crashes)
            .filter(|word| line.contains(**word))
        {
            findings.push(format!("{name}:{}: {word}", index + 1));
        }
    }
    findings
}

/// Libraries and the binary; not tests, nor what only tests and chores use.
fn runs_in_the_server(file: &Path) -> bool {
    let inside = |folder: &str| file.components().any(|part| part.as_os_str() == folder);
    file.starts_with("crates") && inside("src") && !inside("store-conformance") && !inside("tests")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(file: &str, text: &str) -> usize {
        check_source(Path::new(file), text).len()
    }

    #[test]
    fn leftovers_and_crashes_are_found() {
        let library = "crates/store/src/lib.rs";
        assert_eq!(check_text(library, "let x = y.unwrap();\n"), 1);
        assert_eq!(check_text(library, concat!("tod", "o!()\n")), 1);
        assert_eq!(check_text(library, "fn f() {}\n"), 0);
        assert_eq!(check_text(library, &"\n".repeat(501)), 1);
    }

    #[test]
    fn tests_may_crash() {
        let text = "#[cfg(test)]\nmod tests { fn f() { y.unwrap() } }\n";
        assert_eq!(check_text("crates/store/src/lib.rs", text), 0);
        assert_eq!(check_text("crates/store/tests/a.rs", "y.unwrap()\n"), 0);
        assert_eq!(
            check_text("crates/store-conformance/src/a.rs", "y.unwrap()\n"),
            0
        );
    }
}
