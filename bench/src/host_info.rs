//! Description of the machine, printed with every result, and its open-file limit.

use std::fs;

use anyhow::{Context, Result};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Processor, cores, memory and kernel version in one line.
pub(crate) fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let processor = first_value("/proc/cpuinfo", "model name");
    let memory_kib: u64 = first_value("/proc/meminfo", "MemTotal")
        .split_whitespace()
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or(0);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let gib = memory_kib / (1024 * 1024);
    format!(
        "{processor}, {cores} cores, {gib} GiB, Linux {}",
        kernel.trim()
    )
}

fn first_value(file: &str, name: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.split_once(':'));
    value
        .map_or("unknown", |(_, value)| value.trim())
        .to_owned()
}

/// Raises the soft open-file limit of this process and its children to the hard limit, and returns it.
pub(crate) fn raise_open_files() -> Result<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).context("failed to raise the open-file limit")?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}
