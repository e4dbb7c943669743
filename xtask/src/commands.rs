//! Runs and prints commands.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

/// The workspace root. Determined at run time, because two clones that share a build directory share this program.
pub(crate) fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let here = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        here.parent().unwrap_or(Path::new(".")).to_owned()
    });
    &ROOT
}

/// The build directory, which also holds downloaded tools.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root().join(directory),
        None => root().join("target"),
    }
}

/// A cargo command in the workspace root.
pub(crate) fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// Prints the command and runs it; the error names the command.
pub(crate) fn step(title: &str, command: &mut Command) -> Result<()> {
    println!("==> {title}");
    let begun = Instant::now();
    let status = command
        .status()
        .with_context(|| format!("cannot run {command:?}"))?;
    ensure!(status.success(), "{title} failed ({status})");
    println!(
        "    {title}: done in {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}
