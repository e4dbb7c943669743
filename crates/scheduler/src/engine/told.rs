//! What the server was told of the places that are kept for pods, and has not said back yet.

use std::time::{Duration, Instant};

use crate::cluster::{IdMap, PodId};

/// What did not come back in this time was not written, or nothing had to be.
const LATE_MAX: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Told {
    by_pod: IdMap<PodId, Vec<Word>>,
}

#[derive(Debug)]
struct Word {
    /// `None` if no place is kept any more.
    node: Option<Box<str>>,
    said: Instant,
}

impl Told {
    pub(super) fn note(&mut self, pod: PodId, node: Option<Box<str>>, now: Instant) {
        let words = self.by_pod.entry(pod).or_default();
        words.retain(|word| word.may_come(now));
        words.push(Word { node, said: now });
    }

    /// Whether the server only repeats what it was told, and has been told something else since. Of several words it
    /// may repeat the last alone.
    pub(super) fn is_outdated(&mut self, pod: PodId, node: Option<&str>, now: Instant) -> bool {
        let Some(words) = self.by_pod.get_mut(&pod) else {
            return false;
        };
        words.retain(|word| word.may_come(now));
        let repeated = words.iter().position(|word| word.node.as_deref() == node);
        if let Some(index) = repeated {
            words.drain(..=index);
        }
        let is_last = words.is_empty();
        if is_last {
            self.by_pod.remove(&pod);
        }
        repeated.is_some() && !is_last
    }

    /// The last word about a pod that may still have to come back.
    pub(super) fn last(&self, pod: PodId) -> Option<Option<&str>> {
        let word = self.by_pod.get(&pod)?.last()?;
        Some(word.node.as_deref())
    }

    /// For a pod that waits no more.
    pub(super) fn forget(&mut self, pod: PodId) {
        self.by_pod.remove(&pod);
    }
}

impl Word {
    fn may_come(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.said) < LATE_MAX
    }
}
