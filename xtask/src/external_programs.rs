//! Finds or downloads the external programs that tests need.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::commands::{root, target};

/// An external program.
struct ExternalProgram {
    name: &'static str,
    /// The Debian package that contains it.
    package: &'static str,
    /// Its path, on the machine and in the package.
    place: &'static str,
    /// Regular expression of library packages that it needs and that may be missing; '' if none.
    libraries: &'static str,
    /// The environment variable that passes its path to tests.
    variable: &'static str,
}

const ETCD: ExternalProgram = ExternalProgram {
    name: "etcd",
    package: "etcd-server",
    place: "usr/bin",
    libraries: "",
    variable: "RHUMB_TEST_ETCD",
};

const OPENSSL: ExternalProgram = ExternalProgram {
    name: "openssl",
    package: "openssl",
    place: "usr/bin",
    libraries: "",
    variable: "RHUMB_TEST_OPENSSL",
};

const NFT: ExternalProgram = ExternalProgram {
    name: "nft",
    package: "nftables",
    place: "usr/sbin",
    libraries: "lib(bsd|edit|gmp|jansson|md|mnl|nftables|nftnl|readline|tinfo|xtables)[0-9]+.*",
    variable: "RHUMB_TEST_NFT",
};

/// The environment variables that tests need, with their values.
pub(crate) fn for_tests() -> Result<Vec<(&'static str, PathBuf)>> {
    println!("==> what the tests need");
    [ETCD, OPENSSL, NFT].iter().map(provide).collect()
}

fn provide(program: &ExternalProgram) -> Result<(&'static str, PathBuf)> {
    if let Some(path) = std::env::var_os(program.variable) {
        return Ok((program.variable, path.into()));
    }
    let usual = Path::new("/").join(program.place).join(program.name);
    let usual = usual.is_file().then_some(usual);
    if let Some(path) = on_the_path(program.name).or(usual) {
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
        .args([program.libraries, program.package])
        .status()
        .context("cannot run tools/unpack-debian")?;
    let path = directory.join(program.place).join(program.name);
    if !status.success() || !path.is_file() {
        bail!(
            "{} is needed: apt-get install {}",
            program.name,
            program.package
        );
    }
    match program.libraries {
        "" => Ok((program.variable, path)),
        _ => Ok((program.variable, with_libraries(&directory, &path)?)),
    }
}

/// Writes a wrapper script that runs the unpacked program with the unpacked libraries.
fn with_libraries(directory: &Path, program: &Path) -> Result<PathBuf> {
    let start = directory.join("start");
    let (place, program) = (directory.display(), program.display());
    let script = format!(
        "#!/bin/sh\n\
         LD_LIBRARY_PATH=$(printf '%s:' '{place}'/usr/lib/*-linux-gnu* '{place}'/lib/*-linux-gnu*)\n\
         export LD_LIBRARY_PATH\n\
         exec '{program}' \"$@\"\n"
    );
    std::fs::write(&start, script)?;
    std::fs::set_permissions(&start, Permissions::from_mode(0o755))?;
    Ok(start)
}

pub(crate) fn on_the_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|directory| directory.join(name));
    places.find(|place| place.is_file())
}
