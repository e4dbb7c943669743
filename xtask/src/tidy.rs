//! What the compiler does not check: the map of the code is true, files are small, nothing is left over.

mod dependencies;
mod files;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::steps::root;

pub(crate) fn run() -> Result<()> {
    println!("==> tidy");
    let files = tracked_files()?;
    let mut findings = files::check(&files)?;
    findings.extend(dependencies::check()?);
    for finding in &findings {
        println!("    {finding}");
    }
    if !findings.is_empty() {
        bail!("tidy: {} place(s) to look at", findings.len());
    }
    println!("    tidy: {} files are in order", files.len());
    Ok(())
}

/// The files that git tracks or would, relative to the top.
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
