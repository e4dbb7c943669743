//! Atomic reads and writes of small files.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use anyhow::{Context as _, Result};

const PRIVATE_MODE: u32 = 0o600;
const PUBLIC_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o700;

/// A certificate or key is a few kilobytes; a file beyond this is something else.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Creates a directory with mode 0700, and its parents.
pub(super) fn create_directory(path: &Path) -> Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(DIRECTORY_MODE);
    builder
        .create(path)
        .with_context(|| format!("{}: cannot make the directory", path.display()))
}

/// The text of a file; `None` if it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<String>> {
    let shown = path.display();
    let size = match fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("{shown}: cannot read")),
    };
    if size > FILE_BYTES_MAX {
        anyhow::bail!("{shown}: {size} bytes are too many for a certificate or key");
    }
    let text = fs::read_to_string(path).with_context(|| format!("{shown}: cannot read"))?;
    Ok(Some(text))
}

pub(super) fn write_private(path: &Path, text: &str) -> Result<()> {
    write(path, text, PRIVATE_MODE).with_context(|| format!("{}: cannot write", path.display()))
}

pub(super) fn write_public(path: &Path, text: &str) -> Result<()> {
    write(path, text, PUBLIC_MODE).with_context(|| format!("{}: cannot write", path.display()))
}

/// Writes a temporary file and renames it, so that a crash leaves the old or the new content.
fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    // A temporary file of an earlier crash may have another mode.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}
