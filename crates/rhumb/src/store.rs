//! `rhumb store`: offline maintenance of the embedded store of a stopped server.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use rhumb_store::embedded::{self, StoreContentsReport};

/// The store below the data directory of a server.
pub(crate) const STORE_DIRECTORY: &str = "store";

#[derive(clap::Subcommand)]
pub(crate) enum StoreCommand {
    /// Read all stored data and report damage.
    Check(StoreFlags),
    /// Back up all objects to a new file.
    Backup {
        #[command(flatten)]
        flags: StoreFlags,
        /// The file to write; it must not exist.
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
    },
    /// Delete an object whose stored value is damaged, so that the rest can be backed up.
    DropDamaged {
        #[command(flatten)]
        flags: StoreFlags,
        /// The key, as printed by `rhumb store check`.
        #[arg(long)]
        key: String,
    },
    /// Restore a backup into the data directory of a new server.
    ///
    /// New revisions start far above those of the backup, so that no client mistakes a new change for one that it has
    /// already seen: all clients list again.
    Restore {
        #[command(flatten)]
        flags: StoreFlags,
        /// The backup to read.
        #[arg(long, value_name = "FILE")]
        from: PathBuf,
    },
}

#[derive(clap::Args)]
pub(crate) struct StoreFlags {
    /// The data directory of a server, as for `rhumb up`, or the directory of a store alone.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "text")]
    output: StoreOutputFormat,
}

impl StoreFlags {
    /// The directory of an existing store.
    fn store(&self) -> PathBuf {
        let of_server = self.new_store();
        match of_server.exists() {
            true => of_server,
            false => self.data_dir.clone(),
        }
    }

    /// The directory of a store to restore: that of a server which will use the data directory.
    fn new_store(&self) -> PathBuf {
        self.data_dir.join(STORE_DIRECTORY)
    }
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum StoreOutputFormat {
    Text,
    Json,
}

pub(crate) fn run(command: StoreCommand) -> Result<ExitCode> {
    let (output, verb, report) = match command {
        StoreCommand::Check(flags) => {
            let report = embedded::check_store(&flags.store())?;
            (flags.output, "checked", report)
        }
        StoreCommand::Backup { flags, to } => {
            let report = embedded::backup_offline(&flags.store(), &to)?;
            (flags.output, "saved", report)
        }
        StoreCommand::DropDamaged { flags, key } => {
            let runtime = tokio::runtime::Builder::new_current_thread().build()?;
            runtime.block_on(embedded::delete_damaged_entry(&flags.store(), &key))?;
            let report = embedded::check_store(&flags.store())?;
            (flags.output, "dropped it and checked", report)
        }
        StoreCommand::Restore { flags, from } => {
            let report = embedded::restore(&from, &flags.new_store())?;
            (flags.output, "restored", report)
        }
    };
    match output {
        StoreOutputFormat::Text => print!("{}", text(verb, &report)),
        StoreOutputFormat::Json => println!("{}", json(&report)),
    }
    Ok(if report.damaged.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn text(verb: &str, report: &StoreContentsReport) -> String {
    let StoreContentsReport {
        revision,
        entries,
        bytes,
        damaged,
    } = report;
    let mut text = format!(
        "{verb} {entries} objects, {} KiB, revision {revision}\n",
        bytes / 1024
    );
    for key in damaged {
        text.push_str(&format!("damaged: {key}\n"));
    }
    if !damaged.is_empty() {
        text.push_str(
            "restore a backup with `rhumb store restore`, or delete damaged objects with `rhumb store drop-damaged`\n",
        );
    }
    text
}

fn json(report: &StoreContentsReport) -> serde_json::Value {
    serde_json::json!({
        "revision": report.revision.get(),
        "objects": report.entries,
        "bytes": report.bytes,
        "damaged": report.damaged,
    })
}
