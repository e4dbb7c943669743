//! Reports differences between the responses of rhumb and of upstream.

/// The maximum number of differences that are printed.
const PRINTED_MAX: usize = 5;

/// Panics with the first differences, if there are any.
pub fn assert_no_differences(differences: &[String], compared: usize) {
    assert!(
        differences.is_empty(),
        "{} of {compared} responses differ, such as:\n{}",
        differences.len(),
        differences[..differences.len().min(PRINTED_MAX)].join("\n")
    );
}
