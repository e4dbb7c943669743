//! Runs `nft`.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::time::timeout;

use super::error::Error;

/// Where programs for administrators are, which are not on everyone's path.
const USUAL_PLACES: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];
/// A whole program of thousands of policies takes some seconds.
const TIME_MAX: Duration = Duration::from_secs(30);
/// How much of what nft says is read; the rest is left out.
const SAID_BYTES_MAX: usize = 64 * 1024;

/// The program.
#[derive(Debug, Clone)]
pub struct Nft {
    program: PathBuf,
}

struct Output {
    status: ExitStatus,
    out: String,
    said: String,
}

impl Nft {
    /// A path is taken as it is; a bare name is looked for on `$PATH` and in the usual places.
    pub fn find(program: &Path) -> Result<Nft, Error> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let named = program.components().count() > 1;
        let places = std::env::split_paths(&path).chain(USUAL_PLACES.map(PathBuf::from));
        let mut places = places.map(|place| place.join(program));
        let found = match named {
            true => Some(program.to_owned()).filter(|program| program.is_file()),
            false => places.find(|place| place.is_file()),
        };
        match found {
            Some(program) => Ok(Nft { program }),
            None => Err(Error::NotFound(program.to_owned())),
        }
    }

    /// Carries out a script: all of it at one moment, or nothing.
    pub async fn apply(&self, script: &str) -> Result<(), Error> {
        let output = self.run(&["-f", "-"], script).await?;
        succeeded(&output, script)
    }

    /// Has the kernel look at a script, and changes nothing.
    pub async fn check(&self, script: &str) -> Result<(), Error> {
        let output = self.run(&["-c", "-f", "-"], script).await?;
        succeeded(&output, script)
    }

    /// What nft would complain of in a script.
    pub(super) async fn complaints(&self, script: &str) -> Result<String, Error> {
        let output = self.run(&["-c", "-f", "-"], script).await?;
        Ok(output.said)
    }

    /// What nft shows when it is asked something.
    pub(super) async fn ask(&self, question: &str) -> Result<String, Error> {
        let output = self.run(&["-f", "-"], question).await?;
        succeeded(&output, question)?;
        Ok(output.out)
    }

    async fn run(&self, args: &[&str], script: &str) -> Result<Output, Error> {
        let failed = |error| Error::Start {
            program: self.program.clone(),
            error,
        };
        let run = async {
            let mut child = Command::new(&self.program)
                .args(args)
                .env("LC_ALL", "C")
                .stdin(whole(script)?)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .kill_on_drop(true)
                .spawn()?;
            let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
            let (out, said) = tokio::join!(read(stdout), read(stderr));
            let status = child.wait().await?;
            std::io::Result::Ok(Output {
                status,
                out: out?,
                said: said?,
            })
        };
        match timeout(TIME_MAX, run).await {
            Ok(output) => output.map_err(failed),
            Err(_) => Err(Error::TimedOut(TIME_MAX.as_secs())),
        }
    }
}

/// A script that can be read to its end whatever becomes of this process: of one that comes through a pipe, nft would
/// carry out the beginning.
fn whole(script: &str) -> std::io::Result<Stdio> {
    let mut file = File::from(memfd_create("script", MemfdFlags::CLOEXEC)?);
    file.write_all(script.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

fn succeeded(output: &Output, script: &str) -> Result<(), Error> {
    match output.status.success() {
        true => Ok(()),
        false if output.said.trim().is_empty() => {
            Err(Error::refused(&output.status.to_string(), script))
        }
        false => Err(Error::refused(&output.said, script)),
    }
}

/// Reads to the end, and keeps the beginning.
async fn read(from: Option<impl AsyncRead + Unpin>) -> std::io::Result<String> {
    let Some(mut from) = from else {
        return Ok(String::new());
    };
    let mut kept = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let length = from.read(&mut piece).await?;
        if length == 0 {
            return Ok(String::from_utf8_lossy(&kept).into_owned());
        }
        let room = SAID_BYTES_MAX - kept.len();
        kept.extend(piece.iter().take(length.min(room)));
    }
}
