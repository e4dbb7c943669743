//! Checks that ARCHITECTURE.md is short and that every path in it exists.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::commands::root;

const WORDS_MAX: usize = 3_000;

pub(super) fn check(files: &[PathBuf]) -> Result<Vec<String>> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    let names: Vec<String> = files
        .iter()
        .map(|file| file.to_string_lossy().into_owned())
        .collect();
    let mut findings = missing_paths(&text, &names);
    let words = text.split_whitespace().count();
    if words > WORDS_MAX {
        findings.push(format!(
            "ARCHITECTURE.md: {words} words, at most {WORDS_MAX}: move details into module headers"
        ));
    }
    Ok(findings)
}

fn missing_paths(text: &str, files: &[String]) -> Vec<String> {
    paths(text)
        .filter(|path| !exists(path, files))
        .map(|path| format!("ARCHITECTURE.md: there is no {path}"))
        .collect()
}

/// Code spans outside of code blocks that name a Rust file or a folder of the project.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("```").step_by(2);
    let spans = prose.flat_map(|prose| prose.split('`').skip(1).step_by(2));
    spans.filter(|span| {
        let is_path = |c: char| c.is_ascii_alphanumeric() || "/_.-".contains(c);
        span.chars().all(is_path)
            && !span.starts_with('/')
            && (span.ends_with(".rs") || span.ends_with(".table") || span.ends_with('/'))
    })
}

/// A path may be relative to the project, or to the sources of the crate that its section is about.
fn exists(path: &str, files: &[String]) -> bool {
    files.iter().any(|file| {
        let below_root = file.strip_prefix(path);
        let below_crate = file
            .split_once("/src/")
            .filter(|(head, _)| head.starts_with("crates/"))
            .and_then(|(_, tail)| tail.strip_prefix(path));
        let is_name_only = !path.contains('/') && file.ends_with(&format!("/{path}"));
        let matches = |rest: &str| rest.is_empty() || path.ends_with('/');
        is_name_only || below_root.is_some_and(matches) || below_crate.is_some_and(matches)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_do_not_exist_are_reported() {
        let files = ["crates/store/src/etcd/mod.rs", "docs/quotas.md"].map(str::to_owned);
        let text = "`crates/store/src/etcd/mod.rs`, `etcd/mod.rs`, `mod.rs`, `crates/store/`, `etcd/`, `Store`,\n\
            ```text\n`no/such.rs`\n```\n`/etc/passwd`, `etcd/client.rs`, `gone.rs`, `crates/gone/`";
        assert_eq!(
            missing_paths(text, &files),
            [
                "ARCHITECTURE.md: there is no etcd/client.rs",
                "ARCHITECTURE.md: there is no gone.rs",
                "ARCHITECTURE.md: there is no crates/gone/",
            ]
        );
    }
}
