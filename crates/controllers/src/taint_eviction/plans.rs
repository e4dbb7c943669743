//! Which pods are to go, and when.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::tolerations::Fate;
use crate::views::PodKey;

#[derive(Debug, Default)]
pub(super) struct Plans(HashMap<PodKey, Plan>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) node: String,
    /// Another pod of the same name is not meant.
    pub(super) uid: Option<String>,
    pub(super) due: Instant,
}

/// What a new look at a pod changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    /// It goes after this time, if nothing happens.
    Goes(Duration),
    /// It was to go, and stays.
    Stays,
}

impl Plans {
    /// A pod that is on its way out is never given more time: a taint that takes the place of another does not
    /// start the time anew.
    pub(super) fn decide(
        &mut self,
        pod: &PodKey,
        node: &str,
        uid: Option<&String>,
        fate: Fate,
        now: Instant,
    ) -> Change {
        let Fate::GoesAfter(time) = fate else {
            return self.cancel(pod);
        };
        // Users may set any time; what no clock can tell never comes.
        let Some(due) = now.checked_add(time) else {
            return self.cancel(pod);
        };
        let known = self.0.get(pod);
        if known.is_some_and(|known| known.uid.as_ref() == uid && known.due <= due) {
            return Change::Nothing;
        }
        let plan = Plan {
            node: node.to_owned(),
            uid: uid.cloned(),
            due,
        };
        self.0.insert(pod.clone(), plan);
        Change::Goes(time)
    }

    pub(super) fn cancel(&mut self, pod: &PodKey) -> Change {
        match self.0.remove(pod) {
            Some(_) => Change::Stays,
            None => Change::Nothing,
        }
    }

    /// The pods that were to leave the node, and now stay.
    pub(super) fn cancel_node(&mut self, node: &str) -> Vec<PodKey> {
        let of_node = self.0.extract_if(|_, plan| plan.node == node);
        of_node.map(|(pod, _)| pod).collect()
    }

    pub(super) fn get(&self, pod: &PodKey) -> Option<Plan> {
        self.0.get(pod).cloned()
    }

    /// What was planned is done.
    pub(super) fn done(&mut self, pod: &PodKey, plan: &Plan) {
        if self.0.get(pod) == Some(plan) {
            self.0.remove(pod);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn time_that_runs_is_never_prolonged() {
        let start = Instant::now();
        let pod = PodKey {
            namespace: "ns".to_owned(),
            name: "p".to_owned(),
        };
        let uids = ["1".to_owned(), "2".to_owned()];
        let mut plans = Plans::default();
        let mut check = |second: u64, uid: usize, seconds: Option<u64>, expect: Change| {
            let fate = match seconds {
                Some(seconds) => Fate::GoesAfter(Duration::from_secs(seconds)),
                None => Fate::Stays,
            };
            let now = start + Duration::from_secs(second);
            let change = plans.decide(&pod, "n", Some(&uids[uid]), fate, now);
            assert_eq!(change, expect, "at {second}");
        };
        let goes = |seconds| Change::Goes(Duration::from_secs(seconds));
        check(0, 0, None, Change::Nothing);
        check(0, 0, Some(300), goes(300));
        check(100, 0, Some(300), Change::Nothing);
        check(100, 0, Some(20), goes(20));
        check(110, 0, None, Change::Stays);
        check(120, 0, Some(300), goes(300));
        check(130, 1, Some(300), goes(300));
        check(140, 1, Some(i64::MAX as u64), Change::Stays);
        check(140, 1, Some(i64::MAX as u64), Change::Nothing);
        check(150, 1, Some(300), goes(300));
        assert_eq!(plans.cancel_node("other"), []);
        assert_eq!(plans.cancel_node("n"), std::slice::from_ref(&pod));
        assert_eq!(plans.get(&pod), None);
    }
}
