//! What the process takes of the machine, as the kernel tells it.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry as Exposition;

/// How the kernel counts processor time for programs, on every platform that Linux has today.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug, Default)]
pub(super) struct Process {
    memory_bytes: Gauge,
    cpu_seconds: Counter<f64, AtomicU64>,
    open_files: Gauge,
}

impl Process {
    pub(super) fn register(exposition: &mut Exposition) -> Process {
        let process = Process::default();
        exposition.register(
            "process_resident_memory_bytes",
            "Resident memory",
            process.memory_bytes.clone(),
        );
        exposition.register(
            "process_cpu_seconds",
            "Processor time",
            process.cpu_seconds.clone(),
        );
        exposition.register(
            "process_open_fds",
            "Open files and sockets",
            process.open_files.clone(),
        );
        process
    }

    /// What cannot be read stays as it was.
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
    // The name of the process is in brackets and may hold anything; times are counted from its end.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_tells_what_this_process_takes() {
        assert!(super::resident_bytes().unwrap() > 1024 * 1024);
        assert!(super::cpu_seconds().unwrap() >= 0.0);
    }
}
