//! Runs commands one after the other, and says which.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

/// The top of the project. Cargo is asked at run time: two clones that build into one directory share this program.
pub(crate) fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let here = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        here.parent().unwrap_or(Path::new(".")).to_owned()
    });
    &ROOT
}

/// Where builds go, and what is fetched for them.
pub(crate) fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root().join(directory),
        None => root().join("target"),
    }
}

/// Cargo, in the project's folder.
pub(crate) fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// Tells what is going on, carries it out, and fails with the command if it fails.
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
