//! The outcome of comparing many answers of rhumb with those of upstream.

/// How many differences are printed.
const SHOWN_MAX: usize = 5;

/// Panics with the first differences, if there are any.
pub fn assert_no_differences(differences: &[String], compared: usize) {
    assert!(
        differences.is_empty(),
        "{} of {compared} answers differ; the first are:\n{}",
        differences.len(),
        differences[..differences.len().min(SHOWN_MAX)].join("\n")
    );
}
