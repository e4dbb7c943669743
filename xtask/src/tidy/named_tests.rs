//! Checks that the tests which docs/proposals names as evidence exist.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::commands::root;

pub(super) fn check(files: &[PathBuf]) -> Result<Vec<String>> {
    let mut functions = HashSet::new();
    for file in files {
        if file.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(root().join(file));
            let text = text.with_context(|| format!("failed to read {}", file.display()))?;
            functions.extend(function_names(&text).map(str::to_owned));
        }
    }
    let mut findings = Vec::new();
    for page in files.iter().filter(|it| it.starts_with("docs/proposals")) {
        let text = fs::read_to_string(root().join(page))?;
        let missing = named_tests(&text).filter(|name| !functions.contains(*name));
        findings.extend(missing.map(|name| format!("{}: there is no test {name}", page.display())));
    }
    Ok(findings)
}

fn function_names(text: &str) -> impl Iterator<Item = &str> {
    text.split("fn ").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !is_name_character(c))?;
        rest.get(..end)
    })
}

/// Code spans with the form of a test name, in the last cells of table rows.
fn named_tests(text: &str) -> impl Iterator<Item = &str> {
    let rows = text.lines().filter(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
    let spans = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    spans.filter(|span| span.contains('_') && span.chars().all(is_name_character))
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_names_are_read_from_the_last_cells() {
        let text = "`not_in_a_table`\n| `a_field` | x | `a_test`, `dir/file.rs`, `prefix_…`, `b_test_2` |\n";
        assert_eq!(
            named_tests(text).collect::<Vec<_>>(),
            ["a_test", "b_test_2"]
        );
    }

    #[test]
    fn functions_are_found_in_source_text() {
        let text = "async fn a_test() {}\n    fn generic_one<T>(t: T) {}";
        assert_eq!(
            function_names(text).collect::<Vec<_>>(),
            ["a_test", "generic_one"]
        );
    }
}
