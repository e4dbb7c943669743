//! The differences that are meant: `interop/differential/differences.yaml`.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::diff::{Difference, matches};

/// Differences that have one reason. `*` stands for anything.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// `topic/case`.
    pub case: String,
    /// The step and the path of the field, such as `2 GET /version body.gitVersion`.
    pub at: String,
    pub reason: String,
}

impl Expected {
    fn covers(&self, difference: &Difference) -> bool {
        let at = format!("{} {}", difference.step, difference.path);
        matches(&self.case, &difference.case) && matches(&self.at, &at)
    }

    /// Whether a run over these cases could have shown it.
    fn could_be_seen(&self, cases: &[&str]) -> bool {
        cases.iter().any(|case| matches(&self.case, case))
    }
}

pub fn read(path: &Path) -> Result<Vec<Expected>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_saphyr::from_str(&text).with_context(|| path.display().to_string())
}

/// What remains of a comparison.
#[derive(Debug)]
pub struct Verdict {
    /// Differences that nobody listed.
    pub unlisted: Vec<Difference>,
    /// Entries of the list that are no longer true.
    pub gone: Vec<Expected>,
    pub listed_count: usize,
}

pub fn judge(differences: Vec<Difference>, expected: &[Expected], cases: &[&str]) -> Verdict {
    let gone = expected.iter().filter(|entry| {
        entry.could_be_seen(cases) && !differences.iter().any(|found| entry.covers(found))
    });
    let gone = gone.cloned().collect();
    let (listed, unlisted): (Vec<_>, Vec<_>) = differences
        .into_iter()
        .partition(|found| expected.iter().any(|entry| entry.covers(found)));
    Verdict {
        unlisted,
        gone,
        listed_count: listed.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(path: &str) -> Difference {
        Difference {
            case: "pods/defaults".into(),
            step: "1 GET /".into(),
            path: path.into(),
            theirs: None,
            ours: None,
        }
    }

    #[test]
    fn a_difference_is_listed_or_it_fails_and_so_does_a_list_that_is_old() {
        let entry = |case: &str, at: &str| Expected {
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
        let verdict = judge(found, &expected, &["pods/defaults"]);
        assert_eq!(verdict.unlisted, [difference("body.b")]);
        assert_eq!(verdict.listed_count, 1);
        assert_eq!(verdict.gone.len(), 1);
        assert_eq!(verdict.gone[0].at, "1 GET / body.c");
    }
}
