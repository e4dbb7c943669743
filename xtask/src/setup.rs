//! Finds what the tests need on this machine, or gets it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::steps::{root, target};

/// A program that is not ours.
struct Program {
    name: &'static str,
    /// The Debian package that holds it.
    package: &'static str,
    /// By which tests learn where it is.
    variable: &'static str,
}

const ETCD: Program = Program {
    name: "etcd",
    package: "etcd-server",
    variable: "RHUMB_TEST_ETCD",
};

const OPENSSL: Program = Program {
    name: "openssl",
    package: "openssl",
    variable: "RHUMB_TEST_OPENSSL",
};

/// The environment that the tests need: each variable and its value.
pub(crate) fn for_tests() -> Result<Vec<(&'static str, PathBuf)>> {
    println!("==> what the tests need");
    [ETCD, OPENSSL].iter().map(provide).collect()
}

fn provide(program: &Program) -> Result<(&'static str, PathBuf)> {
    if let Some(path) = std::env::var_os(program.variable) {
        return Ok((program.variable, path.into()));
    }
    if let Some(path) = on_the_path(program.name) {
        println!("    {}: {}", program.name, path.display());
        return Ok((program.variable, path));
    }
    let directory = target().join("tools").join(program.package);
    println!(
        "    {}: from Debian's package {}",
        program.name, program.package
    );
    let status = Command::new(root().join("tools/unpack-debian"))
        .arg(&directory)
        .args(["", program.package])
        .status()
        .context("cannot run tools/unpack-debian")?;
    let path = directory.join("usr/bin").join(program.name);
    if !status.success() || !path.is_file() {
        bail!(
            "{} is needed: apt-get install {}",
            program.name,
            program.package
        );
    }
    Ok((program.variable, path))
}

pub(crate) fn on_the_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|directory| directory.join(name));
    places.find(|place| place.is_file())
}
