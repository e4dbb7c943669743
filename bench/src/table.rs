//! Markdown tables with aligned columns, and the check of results against performance targets.

use serde::{Serialize, Serializer};
use serde_json::json;

/// Output format of a benchmark.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OutputFormat {
    Table,
    Json,
}

/// Table with a header; the first column is left-aligned text, the others are right-aligned numbers.
pub(crate) struct MarkdownTable {
    rows: Vec<Vec<String>>,
}

impl MarkdownTable {
    pub(crate) fn new(header: &[&str]) -> Self {
        let header = header.iter().map(ToString::to_string).collect();
        Self { rows: vec![header] }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(|column| self.width(column)).collect();
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            text += "|";
            for (column, width) in widths.iter().enumerate() {
                let cell = row.get(column).map_or("", String::as_str);
                text += &match column {
                    0 => format!(" {cell:<width$} |"),
                    _ => format!(" {cell:>width$} |"),
                };
            }
            text += "\n";
            if number == 0 {
                text += &rule(&widths);
            }
        }
        text
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

fn rule(widths: &[usize]) -> String {
    let cells = widths.iter().enumerate().map(|(column, width)| {
        let dashes = "-".repeat(width + 1);
        match column {
            0 => format!("{dashes}-|"),
            _ => format!("{dashes}:|"),
        }
    });
    format!("|{}\n", cells.collect::<String>())
}

/// Upper limit for a measured value.
pub(crate) struct PerformanceTarget {
    pub(crate) what: String,
    pub(crate) measured: f64,
    /// Upper limit.
    pub(crate) wanted: f64,
}

impl PerformanceTarget {
    fn met(&self) -> bool {
        self.measured <= self.wanted
    }
}

impl Serialize for PerformanceTarget {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (measured, wanted) = (self.measured, self.wanted);
        json!({"what": self.what, "measured": measured, "wanted": wanted, "met": self.met()})
            .serialize(serializer)
    }
}

/// Formats ratios below one as fractions, as the targets are stated.
fn ratio(value: f64) -> String {
    match value {
        value if value <= 0.0 => "0".into(),
        value if value < 0.9 => format!("1/{:.1}", 1.0 / value),
        value => format!("{value:.2}"),
    }
}

pub(crate) fn targets(targets: &[PerformanceTarget]) -> String {
    let mut table = MarkdownTable::new(&["target", "measured", "at most", ""]);
    for target in targets {
        let verdict = if target.met() { "met" } else { "not met" };
        table.row([
            target.what.clone(),
            ratio(target.measured),
            ratio(target.wanted),
            verdict.into(),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = MarkdownTable::new(&["server", "µs"]);
        table.row(["rhumb".into(), "7".into()]);
        table.row(["other".into(), "1000".into()]);
        let expected = "\
| server |   µs |
|--------|-----:|
| rhumb  |    7 |
| other  | 1000 |
";
        assert_eq!(table.render(), expected);
    }

    #[test]
    fn target_is_met_or_missed() {
        let at = |measured| PerformanceTarget {
            what: "CPU".into(),
            measured,
            wanted: 0.04,
        };
        let text = targets(&[at(0.02), at(0.05)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[2], "| CPU    |   1/50.0 |  1/25.0 |     met |");
        assert_eq!(lines[3], "| CPU    |   1/20.0 |  1/25.0 | not met |");
    }
}
