//! The expected differences, listed in `interop/differential/differences.yaml`.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::diff::{ResponseDifference, matches};

/// Differences with a common reason. `*` matches any text.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedDifference {
    /// `topic/case`.
    pub case: String,
    /// The step and the path of the field, such as `2 GET /version body.gitVersion`.
    pub location: String,
    pub reason: String,
}

impl ExpectedDifference {
    fn covers(&self, difference: &ResponseDifference) -> bool {
        let location = format!("{} {}", difference.step, difference.path);
        matches(&self.case, &difference.case) && matches(&self.location, &location)
    }

    /// Whether the entry is about one of these cases.
    fn applies_to(&self, cases: &[&str]) -> bool {
        cases.iter().any(|case| matches(&self.case, case))
    }
}

/// Reads `interop/differential/differences.yaml`.
pub fn read() -> Result<Vec<ExpectedDifference>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("differential/differences.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
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
        entry.applies_to(cases) && !differences.iter().any(|found| entry.covers(found))
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
    use crate::differential::case::read_topics;

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
    fn every_entry_applies_to_an_existing_case() {
        let topics = read_topics(&[]).expect("valid case files");
        let mut cases = Vec::new();
        for topic in &topics {
            cases.extend(topic.cases.iter().map(|case| topic.qualified_name(case)));
        }
        let cases: Vec<&str> = cases.iter().map(String::as_str).collect();
        for entry in read().expect("valid differences") {
            assert!(entry.applies_to(&cases), "no case {}", entry.case);
        }
    }

    #[test]
    fn unlisted_differences_and_stale_entries_are_reported() {
        let entry = |case: &str, location: &str| ExpectedDifference {
            case: case.into(),
            location: location.into(),
            reason: "why".into(),
        };
        let expected = [
            entry("pods/*", "* body.a"),
            entry("pods/defaults", "1 GET / body.c"),
            entry("nodes/*", "*"),
        ];
        let found = vec![difference("body.a"), difference("body.b")];
        let result = apply_expected(found, &expected, &["pods/defaults"]);
        assert_eq!(result.unlisted, [difference("body.b")]);
        assert_eq!(result.listed_count, 1);
        assert_eq!(result.stale.len(), 1);
        assert_eq!(result.stale[0].location, "1 GET / body.c");
    }
}
