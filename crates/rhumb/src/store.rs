//! `rhumb store`: the data directory of a stopped server.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use rhumb_store::embedded::{self, Report};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Read everything that is stored, and say what is damaged.
    Check(Place),
    /// Save all objects of this moment to a new file.
    Backup {
        #[command(flatten)]
        place: Place,
        /// The file to write; it must not exist.
        #[arg(long)]
        to: PathBuf,
    },
    /// Delete an object whose stored value is damaged, so that the rest can be saved.
    DropDamaged {
        #[command(flatten)]
        place: Place,
        /// The key as `rhumb store check` shows it.
        #[arg(long)]
        key: String,
    },
    /// Make a store in an empty directory from a backup.
    ///
    /// Revisions go on far after those of the backup, so that no client mistakes a new change for one
    /// that it has seen: all clients list again.
    Restore {
        #[command(flatten)]
        place: Place,
        /// The backup to read.
        #[arg(long)]
        from: PathBuf,
    },
}

#[derive(clap::Args)]
pub(crate) struct Place {
    /// The directory of the store.
    #[arg(long)]
    data_dir: PathBuf,
    /// How to show the result.
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Output {
    Text,
    Json,
}

pub(crate) fn run(command: Command) -> Result<ExitCode> {
    let (output, verb, report) = match command {
        Command::Check(place) => {
            let report = embedded::check(&place.data_dir)?;
            (place.output, "checked", report)
        }
        Command::Backup { place, to } => {
            let report = embedded::backup_file(&place.data_dir, &to)?;
            (place.output, "saved", report)
        }
        Command::DropDamaged { place, key } => {
            let runtime = tokio::runtime::Builder::new_current_thread().build()?;
            runtime.block_on(embedded::drop_damaged(&place.data_dir, &key))?;
            let report = embedded::check(&place.data_dir)?;
            (place.output, "dropped it and checked", report)
        }
        Command::Restore { place, from } => {
            let report = embedded::restore(&from, &place.data_dir)?;
            (place.output, "restored", report)
        }
    };
    match output {
        Output::Text => print!("{}", text(verb, &report)),
        Output::Json => println!("{}", json(&report)),
    }
    Ok(if report.damaged.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn text(verb: &str, report: &Report) -> String {
    let Report {
        revision,
        entries,
        bytes,
        damaged,
    } = report;
    let mut text = format!(
        "{verb} {entries} objects, {} KiB, revision {revision}\n",
        bytes / 1024
    );
    for one in damaged {
        text.push_str(&format!("damaged: {one}\n"));
    }
    if !damaged.is_empty() {
        text.push_str(
            "restore a backup with `rhumb store restore`, or give them up with `rhumb store drop-damaged`\n",
        );
    }
    text
}

fn json(report: &Report) -> serde_json::Value {
    serde_json::json!({
        "revision": report.revision.get(),
        "objects": report.entries,
        "bytes": report.bytes,
        "damaged": report.damaged,
    })
}
