//! Schedule of pending pod evictions (upstream's `TimedWorkerQueue`).

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::tolerations::EvictionDecision;
use crate::partial_objects::PodKey;

#[derive(Debug, Default)]
pub(super) struct EvictionSchedule(HashMap<PodKey, ScheduledEviction>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ScheduledEviction {
    pub(super) node: String,
    /// Tells the pod from a new one of the same name.
    pub(super) uid: Option<String>,
    pub(super) due: Instant,
}

/// How an update changed the schedule of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScheduleChange {
    Nothing,
    /// It will be evicted after this delay.
    Evict(Duration),
    /// Its scheduled eviction was cancelled.
    Cancel,
}

impl EvictionSchedule {
    /// Applies a decision. A scheduled eviction is never postponed: a taint that replaces another does not restart the
    /// toleration time.
    pub(super) fn decide(
        &mut self,
        pod: &PodKey,
        node: &str,
        uid: Option<&String>,
        decision: EvictionDecision,
        now: Instant,
    ) -> ScheduleChange {
        let EvictionDecision::GoesAfter(time) = decision else {
            return self.cancel(pod);
        };
        // `tolerationSeconds` may be too large for an `Instant`: then the pod is never evicted.
        let Some(due) = now.checked_add(time) else {
            return self.cancel(pod);
        };
        let known = self.0.get(pod);
        if known.is_some_and(|known| known.uid.as_ref() == uid && known.due <= due) {
            return ScheduleChange::Nothing;
        }
        let eviction = ScheduledEviction {
            node: node.to_owned(),
            uid: uid.cloned(),
            due,
        };
        self.0.insert(pod.clone(), eviction);
        ScheduleChange::Evict(time)
    }

    pub(super) fn cancel(&mut self, pod: &PodKey) -> ScheduleChange {
        match self.0.remove(pod) {
            Some(_) => ScheduleChange::Cancel,
            None => ScheduleChange::Nothing,
        }
    }

    /// Cancels all evictions from the node; returns their pods.
    pub(super) fn cancel_node(&mut self, node: &str) -> Vec<PodKey> {
        let of_node = self.0.extract_if(|_, eviction| eviction.node == node);
        of_node.map(|(pod, _)| pod).collect()
    }

    pub(super) fn get(&self, pod: &PodKey) -> Option<ScheduledEviction> {
        self.0.get(pod).cloned()
    }

    /// Removes an eviction that was carried out, unless it has been rescheduled.
    pub(super) fn done(&mut self, pod: &PodKey, eviction: &ScheduledEviction) {
        if self.0.get(pod) == Some(eviction) {
            self.0.remove(pod);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_scheduled_eviction_is_never_postponed() {
        let start = Instant::now();
        let pod = PodKey {
            namespace: "ns".to_owned(),
            name: "p".to_owned(),
        };
        let uids = ["1".to_owned(), "2".to_owned()];
        let mut schedule = EvictionSchedule::default();
        let mut check = |second: u64, uid: usize, seconds: Option<u64>, expect: ScheduleChange| {
            let decision = match seconds {
                Some(seconds) => EvictionDecision::GoesAfter(Duration::from_secs(seconds)),
                None => EvictionDecision::Cancel,
            };
            let now = start + Duration::from_secs(second);
            let change = schedule.decide(&pod, "n", Some(&uids[uid]), decision, now);
            assert_eq!(change, expect, "at {second}");
        };
        let goes = |seconds| ScheduleChange::Evict(Duration::from_secs(seconds));
        check(0, 0, None, ScheduleChange::Nothing);
        check(0, 0, Some(300), goes(300));
        check(100, 0, Some(300), ScheduleChange::Nothing);
        check(100, 0, Some(20), goes(20));
        check(110, 0, None, ScheduleChange::Cancel);
        check(120, 0, Some(300), goes(300));
        check(130, 1, Some(300), goes(300));
        check(140, 1, Some(i64::MAX as u64), ScheduleChange::Cancel);
        check(140, 1, Some(i64::MAX as u64), ScheduleChange::Nothing);
        check(150, 1, Some(300), goes(300));
        assert_eq!(schedule.cancel_node("other"), []);
        assert_eq!(schedule.cancel_node("n"), std::slice::from_ref(&pod));
        assert_eq!(schedule.get(&pod), None);
    }
}
