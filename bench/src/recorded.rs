//! Recorded results in `bench/results`: draws charts from them without measuring.
//!
//! A file has the format of `--output json`; its `rounds` are read, the rest says how they were measured.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

#[derive(Deserialize)]
struct RecordedResults<Round> {
    rounds: Vec<Round>,
}

pub(crate) fn read_rounds<Round: DeserializeOwned>(file: &Path) -> Result<Vec<Round>> {
    let text =
        fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))?;
    let recorded: RecordedResults<Round> = serde_json::from_str(&text)
        .with_context(|| format!("{} has no valid results", file.display()))?;
    ensure!(
        !recorded.rounds.is_empty(),
        "{}: rounds is empty",
        file.display()
    );
    Ok(recorded.rounds)
}

/// The flags of a benchmark that has a chart.
#[derive(Debug, clap::Args)]
pub(crate) struct ChartArguments {
    /// Write the chart of the results to this SVG file.
    #[arg(long)]
    plot: Option<PathBuf>,
    /// Draw the results in this file, the output of an earlier run with --output json, instead of measuring.
    #[arg(long, requires = "plot")]
    pub(crate) recorded: Option<PathBuf>,
}

impl ChartArguments {
    /// Writes the chart if `--plot` names a file.
    pub(crate) fn write_chart(&self, svg: impl FnOnce() -> String) -> Result<()> {
        let Some(file) = &self.plot else {
            return Ok(());
        };
        fs::write(file, svg()).with_context(|| format!("failed to write {}", file.display()))
    }
}

#[cfg(test)]
pub(crate) fn assert_chart_is_current<Round: DeserializeOwned>(
    name: &str,
    render: impl FnOnce(&[Round]) -> String,
) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rounds = read_rounds(&directory.join(format!("results/{name}.json")));
    let chart = fs::read_to_string(directory.join(format!("{name}.svg")));
    let is_current = render(&rounds.expect("recorded results")) == chart.expect("chart");
    assert!(
        is_current,
        "draw it again: cargo xtask bench {name} --recorded bench/results/{name}.json --plot bench/{name}.svg"
    );
}
