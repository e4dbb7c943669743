//! The limit on open files: raised at start, and divided between client connections and everything else.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files that are kept for the store, etcd, webhook calls, the audit log and the components of the server.
const RESERVED: u64 = 512;

/// Raises the soft limit to the hard limit, as Go programs do, and returns it.
pub(super) fn raise_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if limit.current == limit.maximum {
        return limit.current.unwrap_or(u64::MAX);
    }
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum.unwrap_or(u64::MAX),
        Err(error) => {
            tracing::warn!(%error, limit = limit.current, "failed to raise the limit on open files; continuing with the current one");
            limit.current.unwrap_or(u64::MAX)
        }
    }
}

/// How many client connections such a limit allows: all but the reserve, or half of a small limit.
pub(super) fn connections_within(open_files: u64) -> usize {
    let left = open_files.saturating_sub(RESERVED.min(open_files / 2));
    usize::try_from(left).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_a_reserve() {
        let table = [
            (256, 128),
            (1024, 512),
            (65_536, 65_024),
            (u64::MAX, u64::MAX - 512),
        ];
        for (open_files, connections) in table {
            assert_eq!(connections_within(open_files) as u64, connections);
        }
    }
}
