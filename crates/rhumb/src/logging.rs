//! Log flags of the commands that run as a service, and the tracing subscriber that they configure.
//!
//! The flags are upstream's (`k8s.io/component-base/logs`): `-v` is klog's verbosity, `--logging-format` is `text` or
//! `json`. Logs go to standard error; results of commands go to standard output.

use tracing::Metadata;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// From this verbosity on, `rhumb up` also logs at info what its embedded scheduler and controllers report.
const COMPONENT_INFO: u32 = 2;
const DEBUG: u32 = 4;
const TRACE: u32 = 5;

/// Crates whose info lines are noise inside `rhumb up`, such as which process leads.
const COMPONENT_CRATES: [&str; 3] = ["rhumb_client", "rhumb_controllers", "rhumb_scheduler"];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct LoggingFlags {
    /// Log verbosity: 0 to 3 log warnings and information, 4 adds debug lines, 5 and more add trace lines.
    #[arg(short, long, value_name = "LEVEL", default_value_t = 0)]
    v: u32,
    /// Format of log lines.
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    logging_format: LoggingFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum LoggingFormat {
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Installs the global tracing subscriber. `is_up` is whether the process is `rhumb up`.
pub(crate) fn install(flags: LoggingFlags, is_up: bool) {
    let filter = filter_fn(move |line| is_logged(line, flags.v, is_up));
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry();
    match flags.logging_format {
        LoggingFormat::Text => registry
            .with(lines.with_target(false).with_filter(filter))
            .init(),
        LoggingFormat::Json => registry
            .with(lines.json().flatten_event(true).with_filter(filter))
            .init(),
    }
}

fn is_logged(line: &Metadata<'_>, verbosity: u32, is_up: bool) -> bool {
    *line.level() <= level_for(line.target(), verbosity, is_up)
}

/// The most verbose level that is logged for a target. kube-rs is silent, since its callers report its errors. Other
/// dependencies never log more than information: their debug lines could contain request headers.
fn level_for(target: &str, verbosity: u32, is_up: bool) -> LevelFilter {
    let is_component = COMPONENT_CRATES.iter().any(|name| target.starts_with(name));
    match verbosity {
        _ if target.starts_with("kube") => LevelFilter::OFF,
        TRACE.. if target.starts_with("rhumb") => LevelFilter::TRACE,
        DEBUG.. if target.starts_with("rhumb") => LevelFilter::DEBUG,
        ..COMPONENT_INFO if is_up && is_component => LevelFilter::WARN,
        _ => LevelFilter::INFO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbosity_selects_the_level_of_each_target() {
        for (target, verbosity, is_up, expected) in [
            ("rhumb_server::handler_chain", 0, true, LevelFilter::INFO),
            ("rhumb_server::handler_chain", 3, true, LevelFilter::INFO),
            ("rhumb_server::handler_chain", 4, true, LevelFilter::DEBUG),
            ("rhumb_server::handler_chain", 5, true, LevelFilter::TRACE),
            ("rhumb_server::handler_chain", 10, true, LevelFilter::TRACE),
            ("rhumb_scheduler::run", 0, true, LevelFilter::WARN),
            ("rhumb_scheduler::run", 2, true, LevelFilter::INFO),
            ("rhumb_scheduler::run", 0, false, LevelFilter::INFO),
            ("h2::client", 10, false, LevelFilter::INFO),
            ("kube_client::client", 10, false, LevelFilter::OFF),
        ] {
            let level = level_for(target, verbosity, is_up);
            assert_eq!(
                level, expected,
                "{target} with -v {verbosity}, is_up {is_up}"
            );
        }
    }
}
