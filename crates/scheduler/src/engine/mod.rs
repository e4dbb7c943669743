//! Everything between what the server says and what it is to be told: which pod is next, where it goes, who has to
//! make room for it, and who may try again after something happened.
//!
//! The engine does no I/O and has no clock: whoever runs it feeds it [`Change`]s, asks for the [`Outcome`] that is
//! next, and says what time it is.

mod change;
mod outcome;

use std::time::{Duration, Instant};

pub use change::Change;
pub use outcome::{Nominated, Outcome, Pending, Reason};

use crate::cluster::Cluster;
use crate::cycle::{Profile, Search};

#[derive(Debug)]
pub struct Settings {
    pub profiles: Vec<ProfileSettings>,
    /// How long a pod waits that was refused once; each time it is refused again it waits twice as long.
    pub pod_initial_backoff: Duration,
    pub pod_max_backoff: Duration,
    /// A pod that has waited so long for something to happen is tried anyway.
    pub pod_max_unschedulable: Duration,
}

impl Settings {
    pub fn new(profiles: Vec<ProfileSettings>) -> Settings {
        Settings {
            profiles,
            pod_initial_backoff: Duration::from_secs(1),
            pod_max_backoff: Duration::from_secs(10),
            pod_max_unschedulable: Duration::from_secs(5 * 60),
        }
    }
}

#[derive(Debug)]
pub struct ProfileSettings {
    pub profile: Profile,
    /// `None` if nobody has to make room for anybody.
    pub preemption: Option<Preemption>,
}

/// Of how many nodes it is found out who would have to go, before one is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preemption {
    pub min_candidate_nodes_percentage: u8,
    pub min_candidate_nodes_absolute: usize,
}

impl Default for Preemption {
    fn default() -> Self {
        Preemption {
            min_candidate_nodes_percentage: 10,
            min_candidate_nodes_absolute: 100,
        }
    }
}

#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    cluster: Cluster,
    search: Search,
}

impl Engine {
    pub fn new(settings: Settings) -> Engine {
        Engine {
            settings,
            cluster: Cluster::default(),
            search: Search::default(),
        }
    }

    /// Takes note of what happened. Pods that it may help are tried again.
    pub fn apply(&mut self, _change: Change, _now: Instant) {}

    /// Decides about one pod, if one is due.
    pub fn next(&mut self, _now: Instant) -> Option<Outcome> {
        None
    }

    /// When to ask again though nothing happened.
    pub fn wakes_at(&self) -> Option<Instant> {
        None
    }

    /// How many pods wait, and where.
    pub fn pending(&self) -> Pending {
        Pending::default()
    }

    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The profile of the pods that name this scheduler.
    pub fn profile(&self, scheduler_name: &str) -> Option<&Profile> {
        let mut profiles = self.settings.profiles.iter();
        let found = profiles.find(|known| *known.profile.scheduler_name == *scheduler_name);
        found.map(|known| &known.profile)
    }
}
