//! Holds back writes of quotas that another client has just written.
//!
//! The API server refreshes the status when a quota is read, possibly from objects whose events have not reached this
//! controller: its own usage would be older.

use std::collections::HashMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::ResourceExt;
use tokio::time::Instant;

use super::Quotas;

/// How long the status that another client has written is kept.
const HOLD: Duration = Duration::from_secs(2);

/// The writes of other clients in one namespace.
#[derive(Debug, Default)]
pub(super) struct ForeignWrites {
    /// The last known version of each quota, by name.
    versions: HashMap<String, Option<String>>,
    held_until: HashMap<String, Instant>,
}

impl ForeignWrites {
    /// Takes notice of changed quotas. One whose limits are not in its status yet is not held back.
    pub(super) fn observe(&mut self, quotas: &Quotas, now: Instant) {
        self.versions.retain(|name, _| quotas.contains_key(name));
        self.held_until
            .retain(|name, until| quotas.contains_key(name) && *until > now);
        for (name, quota) in quotas {
            let version = quota.resource_version();
            let known = self.versions.insert(name.clone(), version.clone());
            if known != Some(version) && shows_limits(quota) {
                self.held_until.insert(name.clone(), now + HOLD);
            }
        }
    }

    /// The version is this controller's own.
    pub(super) fn record_own(&mut self, written: &ResourceQuota) {
        let version = written.resource_version();
        self.versions.insert(written.name_any(), version);
    }

    pub(super) fn is_held(&self, name: &str, now: Instant) -> bool {
        self.held_until.get(name).is_some_and(|until| *until > now)
    }
}

fn shows_limits(quota: &ResourceQuota) -> bool {
    let spec = quota.spec.as_ref().and_then(|spec| spec.hard.as_ref());
    let status = quota.status.as_ref();
    spec == status.and_then(|status| status.hard.as_ref())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn quotas(version: &str, status: &str) -> Quotas {
        let quota = json!({
            "metadata": {"name": "q", "resourceVersion": version},
            "spec": {"hard": {"pods": "2"}},
            "status": {"hard": {"pods": status}},
        });
        let quota = serde_json::from_value(quota).expect("a quota");
        Quotas::from([("q".to_owned(), quota)])
    }

    #[test]
    fn only_recent_writes_of_others_are_held_back() {
        let mut writes = ForeignWrites::default();
        let start = Instant::now();
        writes.observe(&quotas("1", "1"), start);
        assert!(!writes.is_held("q", start), "the limit has changed");
        writes.observe(&quotas("2", "2"), start);
        assert!(writes.is_held("q", start));
        assert!(!writes.is_held("q", start + HOLD));
        // Our own write, then the event of it.
        let written = quotas("3", "2").remove("q").expect("a quota");
        writes.record_own(&written);
        let later = start + HOLD;
        writes.observe(&quotas("3", "2"), later);
        assert!(!writes.is_held("q", later));
        writes.observe(&quotas("4", "2"), later);
        assert!(writes.is_held("q", later));
        writes.observe(&Quotas::new(), later);
        assert!(!writes.is_held("q", later), "deleted");
    }
}
