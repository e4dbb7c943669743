//! Shared configuration of the property tests.

use proptest::test_runner::Config;

/// Without failure persistence files: add the printed minimal failing input to the table-driven tests instead.
pub(crate) fn config() -> Config {
    Config {
        failure_persistence: None,
        ..Config::default()
    }
}
