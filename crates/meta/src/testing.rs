//! What the unit tests share.

use proptest::test_runner::Config;

/// No files of past failures: the smallest failing input is printed, and belongs into the tables of the tests.
pub(crate) fn config() -> Config {
    Config {
        failure_persistence: None,
        ..Config::default()
    }
}
