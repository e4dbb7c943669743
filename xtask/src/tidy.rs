//! Checks beyond the compiler's: crate dependencies match ARCHITECTURE.md, documents name existing files and tests, files are
//! small, no leftover markers.

mod architecture;
mod dependencies;
mod files;
mod named_tests;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::commands::root;

pub(crate) fn run() -> Result<()> {
    println!("==> tidy");
    let files = tracked_files()?;
    let mut findings = files::check(&files)?;
    findings.extend(dependencies::check()?);
    findings.extend(architecture::check(&files)?);
    findings.extend(named_tests::check(&files)?);
    for finding in &findings {
        println!("    {finding}");
    }
    if !findings.is_empty() {
        bail!("tidy: {} place(s) to look at", findings.len());
    }
    println!("    tidy: {} files are in order", files.len());
    Ok(())
}

/// Files that git tracks or would track, relative to the workspace root.
fn tracked_files() -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .current_dir(root())
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .output()
        .context("tidy needs git")?;
    ensure!(output.status.success(), "git ls-files failed");
    let names = String::from_utf8(output.stdout)?;
    let existing = names
        .lines()
        .map(PathBuf::from)
        .filter(|file| root().join(file).is_file());
    Ok(existing.collect())
}
