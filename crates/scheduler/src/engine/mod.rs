//! Everything between what the server says and what it is to be told: which pod is next, where it goes, who has to
//! make room for it, and who may try again after something happened.
//!
//! The engine does no I/O and has no clock: whoever runs it feeds it [`Change`]s, asks for the [`Outcome`] that is
//! next, and says what time it is.

mod apply;
mod attempt;
mod change;
mod events;
mod hold;
mod nominate;
mod outcome;
#[cfg(test)]
mod tests;
mod told;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use change::Change;
pub use outcome::{Nominated, Outcome, Pending, Reason};

pub use crate::preemption::Preemption;

use self::hold::Held;
use crate::cluster::{Cluster, PodId};
use crate::cycle::{Nominations, Observer, Profile, Search};
use crate::preemption::{Budgets, Ranks};
use crate::queue::{Backoff, Incoming, Queue};
use told::Told;

#[derive(Debug)]
pub struct Settings {
    pub profiles: Vec<ProfileSettings>,
    /// How long a pod waits that was refused once; each time it is refused again it waits twice as long.
    pub pod_initial_backoff: Duration,
    pub pod_max_backoff: Duration,
    /// A pod that has waited so long for something to happen is tried anyway.
    pub pod_max_unschedulable: Duration,
    /// Whether terms of affinity may pick namespaces by label; if not, that is not read.
    pub namespace_selectors: bool,
    /// Who wants to know how long plugins take.
    pub observer: Option<Arc<dyn Observer>>,
}

impl Settings {
    pub fn new(profiles: Vec<ProfileSettings>) -> Settings {
        Settings {
            profiles,
            pod_initial_backoff: Duration::from_secs(1),
            pod_max_backoff: Duration::from_secs(10),
            pod_max_unschedulable: Duration::from_secs(5 * 60),
            namespace_selectors: true,
            observer: None,
        }
    }
}

#[derive(Debug)]
pub struct ProfileSettings {
    pub profile: Profile,
    /// `None` if nobody has to make room for anybody.
    pub preemption: Option<Preemption>,
}

#[derive(Debug)]
pub struct Engine {
    profiles: Vec<ProfileSettings>,
    by_name: HashMap<Box<str>, usize>,
    namespace_selectors: bool,
    cluster: Cluster,
    search: Search,
    queue: Queue,
    nominations: Nominations,
    told: Told,
    /// Pods that others were told to make room for, by when that should have been seen.
    patience: VecDeque<(Instant, PodId)>,
    budgets: Budgets,
    ranks: Ranks,
    /// Grows with everything that can change a decision.
    version: u64,
    /// How often somebody was looked for who could make room.
    preemptions: u64,
    held: Held,
    /// What is to be said before another pod is tried.
    notices: VecDeque<Outcome>,
}

impl Engine {
    /// Of several profiles with one name, the first counts.
    pub fn new(settings: Settings) -> Engine {
        let backoff = Backoff {
            initial: settings.pod_initial_backoff,
            max: settings.pod_max_backoff,
        };
        let mut by_name = HashMap::new();
        let mut cluster = Cluster::default();
        for (index, known) in settings.profiles.iter().enumerate() {
            let name = known.profile.scheduler_name.clone();
            by_name.entry(name).or_insert(index);
            known.profile.introduce(&mut cluster);
        }
        Engine {
            profiles: settings.profiles,
            by_name,
            namespace_selectors: settings.namespace_selectors,
            cluster,
            search: Search::observed_by(settings.observer),
            queue: Queue::new(backoff, settings.pod_max_unschedulable),
            nominations: Nominations::default(),
            told: Told::default(),
            patience: VecDeque::new(),
            budgets: Budgets::default(),
            ranks: Ranks::default(),
            version: 0,
            preemptions: 0,
            held: Held::default(),
            notices: VecDeque::new(),
        }
    }

    /// When to ask again though nothing happened.
    pub fn wakes_at(&self) -> Option<Instant> {
        let impatient = self.patience.front().map(|(end, _)| *end);
        let wakes = [self.queue.wakes_at(), self.held.wakes_at(), impatient];
        wakes.into_iter().flatten().min()
    }

    /// How many pods wait, and where.
    pub fn pending(&self) -> Pending {
        self.queue.pending()
    }

    /// What came into the queues since this was asked last, and why.
    pub fn take_incoming(&mut self) -> Incoming {
        self.queue.take_incoming()
    }

    /// How often somebody was looked for who could make room for a pod, whether there was anybody or not.
    pub fn preemptions(&self) -> u64 {
        self.preemptions
    }

    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub fn nominations(&self) -> &Nominations {
        &self.nominations
    }

    /// The profile of the pods that name this scheduler.
    pub fn profile(&self, scheduler_name: &str) -> Option<&Profile> {
        let index = self.by_name.get(scheduler_name)?;
        Some(&self.profiles.get(*index)?.profile)
    }
}
