//! The expected differences, listed in `interop/differential/differences.yaml`.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::diff::{ResponseDifference, matches};

/// Differences with a common reason. `*` matches anything.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedDifference {
    /// `topic/case`.
    pub case: String,
    /// The step and the path of the field, such as `2 GET /version body.gitVersion`.
    pub at: String,
    pub reason: String,
}

impl ExpectedDifference {
    fn covers(&self, difference: &ResponseDifference) -> bool {
        let at = format!("{} {}", difference.step, difference.path);
        matches(&self.case, &difference.case) && matches(&self.at, &at)
    }

    /// Whether a run of these cases covers the entry.
    fn could_be_seen(&self, cases: &[&str]) -> bool {
        cases.iter().any(|case| matches(&self.case, case))
    }
}

pub fn read(path: &Path) -> Result<Vec<ExpectedDifference>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_saphyr::from_str(&text).with_context(|| path.display().to_string())
}

/// The result of a comparison, after expected differences are removed.
#[derive(Debug)]
pub struct ComparisonResult {
    /// Differences that are not listed.
    pub unlisted: Vec<ResponseDifference>,
    /// Listed differences that no longer occur.
    pub stale: Vec<ExpectedDifference>,
    pub listed_count: usize,
}

pub fn apply_expected(
    differences: Vec<ResponseDifference>,
    expected: &[ExpectedDifference],
    cases: &[&str],
) -> ComparisonResult {
    let stale = expected.iter().filter(|entry| {
        entry.could_be_seen(cases) && !differences.iter().any(|found| entry.covers(found))
    });
    let stale = stale.cloned().collect();
    let (listed, unlisted): (Vec<_>, Vec<_>) = differences
        .into_iter()
        .partition(|found| expected.iter().any(|entry| entry.covers(found)));
    ComparisonResult {
        unlisted,
        stale,
        listed_count: listed.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(path: &str) -> ResponseDifference {
        ResponseDifference {
            case: "pods/defaults".into(),
            step: "1 GET /".into(),
            path: path.into(),
            theirs: None,
            ours: None,
        }
    }

    #[test]
    fn unlisted_differences_and_stale_entries_are_reported() {
        let entry = |case: &str, at: &str| ExpectedDifference {
            case: case.into(),
            at: at.into(),
            reason: "why".into(),
        };
        let expected = [
            entry("pods/*", "* body.a"),
            entry("pods/defaults", "1 GET / body.c"),
            entry("nodes/*", "*"),
        ];
        let found = vec![difference("body.a"), difference("body.b")];
        let verdict = apply_expected(found, &expected, &["pods/defaults"]);
        assert_eq!(verdict.unlisted, [difference("body.b")]);
        assert_eq!(verdict.listed_count, 1);
        assert_eq!(verdict.stale.len(), 1);
        assert_eq!(verdict.stale[0].at, "1 GET / body.c");
    }
}
