//! Process metrics from `/proc/self`: memory, CPU time and open files.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry as Exposition;

/// `USER_HZ`, the unit of CPU times in `/proc`: 100 on every platform that Linux supports.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug, Default)]
pub(super) struct ProcessMetrics {
    memory_bytes: Gauge,
    cpu_seconds: Counter<f64, AtomicU64>,
    open_files: Gauge,
}

impl ProcessMetrics {
    pub(super) fn register(exposition: &mut Exposition) -> ProcessMetrics {
        let process = ProcessMetrics::default();
        exposition.register(
            "process_resident_memory_bytes",
            "Resident memory",
            process.memory_bytes.clone(),
        );
        exposition.register(
            "process_cpu_seconds",
            "CPU time, user and system",
            process.cpu_seconds.clone(),
        );
        exposition.register(
            "process_open_fds",
            "Open files and sockets",
            process.open_files.clone(),
        );
        process
    }

    /// Values that cannot be read keep their last state.
    pub(super) fn gather(&self) {
        if let Some(bytes) = resident_bytes() {
            self.memory_bytes.set(bytes);
        }
        if let Some(seconds) = cpu_seconds() {
            self.cpu_seconds
                .inner()
                .store(seconds.to_bits(), Ordering::Relaxed);
        }
        if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
            self.open_files.set(super::count(files.count()));
        }
    }
}

fn resident_bytes() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kilobytes: i64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The process name is in parentheses and may contain anything; fields are counted from its end.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    #[test]
    fn process_metrics_are_read_from_procfs() {
        assert!(super::resident_bytes().unwrap() > 1024 * 1024);
        assert!(super::cpu_seconds().unwrap() >= 0.0);
    }
}
