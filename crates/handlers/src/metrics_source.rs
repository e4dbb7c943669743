//! `MetricsSource`: a component in the process with metrics of its own, such as admission, quotas or the scheduler.

use std::fmt;

pub trait MetricsSource: fmt::Debug + Send + Sync {
    /// Appends its metrics as OpenMetrics text, without the final `# EOF`.
    fn encode(&self, text: &mut String) -> fmt::Result;
}
