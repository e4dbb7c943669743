//! One process leads at a time, by a Lease that it renews.

mod lead;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

pub use lead::Lead;

use crate::Error;
use crate::error::found;

/// Between two times that the same trouble is told.
const COMPLAINTS: Duration = Duration::from_secs(60);
/// Giving the lease back is a courtesy that must not hold the end.
const RELEASE_MAX: Duration = Duration::from_secs(2);

/// Who wants to lead, and what the lease is called.
#[derive(Debug, Clone)]
pub struct Election {
    pub identity: String,
    pub namespace: String,
    pub name: String,
    /// What only the leader runs, as people are told: "the controllers".
    pub led: &'static str,
    pub times: Times,
}

/// How long things last around a lease. The deadline is less than the duration: a leader stops before another can begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// How long a lease lasts that nobody renews.
    pub lease_duration: Duration,
    /// A leader that could not renew for so long leads no longer. It renews twice as often.
    pub renew_deadline: Duration,
    /// Between two attempts to get the lease, or to renew it when that failed.
    pub retry_period: Duration,
}

impl Default for Times {
    /// As upstream has them.
    fn default() -> Times {
        Times {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// The time for which this process leads.
#[derive(Debug)]
pub struct Term {
    pub lead: Lead,
    pub before: Before,
}

/// Whose the lease was before. Requests of one who did not give it back may still be under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Before {
    /// It was given back.
    Nobodys,
    /// This process had it, or one of the same name that is no more.
    Ours,
    /// Or there was none: somebody may have deleted it.
    Anothers,
}

/// A lease that this process has or wants.
#[derive(Debug)]
pub struct Leadership {
    leases: Api<Lease>,
    election: Election,
}

/// What is wrong is said once, and again after a while.
#[derive(Default)]
struct Complaints {
    last: Option<(String, Instant)>,
}

impl Complaints {
    fn say(&mut self, led: &str, problem: String) {
        if let Some((last, since)) = &self.last
            && *last == problem
            && since.elapsed() < COMPLAINTS
        {
            return;
        }
        tracing::warn!("the lease of {led} cannot be had: {problem}");
        self.last = Some((problem, Instant::now()));
    }
}

/// Why this process leads no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    ToAnother,
    /// It could not be renewed, and may be another's soon.
    ByTime,
}

/// What was last seen of another's lease: only time by one's own clock says that it has ended.
#[derive(Debug, PartialEq)]
enum Sighting {
    Held {
        holder: String,
        renewed: Option<MicroTime>,
    },
    /// Somebody deleted it. Whoever had it does not know yet.
    Gone,
}

/// A sighting, when it was made first, and for how long nothing else may be seen until the lease has ended.
#[derive(Debug)]
struct Seen {
    sighting: Sighting,
    since: Instant,
    lasts: Duration,
}

impl Leadership {
    pub fn new(client: Client, election: Election) -> Leadership {
        Leadership {
            leases: Api::namespaced(client, &election.namespace),
            election,
        }
    }

    /// Waits until this process leads.
    pub async fn acquire(&self) -> Term {
        let times = self.election.times;
        let mut seen: Option<Seen> = None;
        let mut complaints = Complaints::default();
        loop {
            // Others count from a later time.
            let asked = Instant::now();
            let problem = match timeout(times.renew_deadline, self.try_acquire(&mut seen)).await {
                Ok(Ok(Some(before))) => {
                    let lead = Lead::new(asked, times.renew_deadline);
                    return Term { lead, before };
                }
                Ok(Ok(None)) => None,
                Ok(Err(error)) if error.is_conflict() => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some("the server does not answer in time".to_owned()),
            };
            if let Some(problem) = problem {
                complaints.say(self.election.led, problem);
            }
            sleep(times.retry_period).await;
        }
    }

    /// Whose the lease was that now is this process's; `None` if it is another's.
    async fn try_acquire(&self, seen: &mut Option<Seen>) -> Result<Option<Before>, Error> {
        let Some(mut lease) = found(self.leases.get(&self.election.name).await)? else {
            let lasts = seen.as_ref().map(|seen| seen.lasts);
            if lasts.is_some_and(|lasts| !has_ended(Sighting::Gone, lasts, seen)) {
                return Ok(None);
            }
            let lease = self.renewed(Lease::default());
            self.leases.create(&PostParams::default(), &lease).await?;
            return Ok(Some(Before::Anothers));
        };
        let spec = lease.spec.get_or_insert_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        let before = match holder.as_str() {
            "" => Before::Nobodys,
            holder if holder == self.election.identity => Before::Ours,
            _ => Before::Anothers,
        };
        let sighting = Sighting::Held {
            holder,
            renewed: spec.renew_time.clone(),
        };
        if before == Before::Anothers && !has_ended(sighting, lasts(spec), seen) {
            return Ok(None);
        }
        self.replace(self.renewed(lease)).await?;
        Ok(Some(before))
    }

    /// Renews the lease until that fails for too long or another process has it.
    pub async fn keep(&self, lead: &Lead) -> Lost {
        let lost = self.renew_on(lead).await;
        lead.end();
        lost
    }

    async fn renew_on(&self, lead: &Lead) -> Lost {
        let Election { led, times, .. } = self.election;
        let usual = times.renew_deadline / 2;
        let mut pause = usual;
        loop {
            let deadline = lead.sure_until();
            sleep_until(deadline.min(Instant::now() + pause)).await;
            let asked = Instant::now();
            match timeout_at(deadline, self.renew()).await {
                // A process that was stopped meanwhile may have been followed by another.
                Ok(_) if Instant::now() >= deadline => return Lost::ByTime,
                Ok(Ok(true)) => {
                    lead.renewed(asked);
                    pause = usual;
                }
                Ok(Ok(false)) => return Lost::ToAnother,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the lease of {led} is not renewed");
                    pause = times.retry_period;
                }
                Err(_) => return Lost::ByTime,
            }
        }
    }

    /// Whether the lease is still this process's. One that somebody deleted may be another's by now.
    async fn renew(&self) -> Result<bool, Error> {
        let lease = found(self.leases.get(&self.election.name).await)?;
        let Some(lease) = lease.filter(|lease| self.is_ours(lease)) else {
            return Ok(false);
        };
        self.replace(self.renewed(lease)).await?;
        Ok(true)
    }

    /// Gives the lease back, so that nobody has to wait for its end.
    pub async fn release(&self) {
        let release = async {
            let mut lease = self.leases.get(&self.election.name).await?;
            if self.is_ours(&lease) {
                let spec = lease.spec.get_or_insert_default();
                spec.holder_identity = Some(String::new());
                spec.lease_duration_seconds = Some(1);
                self.replace(lease).await?;
            }
            Ok::<(), Error>(())
        };
        if let Ok(Err(error)) = timeout(RELEASE_MAX, release).await {
            tracing::debug!(%error, "the lease of {} is not given back", self.election.led);
        }
    }

    fn is_ours(&self, lease: &Lease) -> bool {
        let holder = lease
            .spec
            .as_ref()
            .and_then(|spec| spec.holder_identity.as_ref());
        holder == Some(&self.election.identity)
    }

    async fn replace(&self, lease: Lease) -> Result<(), Error> {
        let params = PostParams::default();
        self.leases
            .replace(&self.election.name, &params, &lease)
            .await?;
        Ok(())
    }

    /// The lease as its leader writes it now.
    fn renewed(&self, lease: Lease) -> Lease {
        let now = MicroTime(Timestamp::now());
        let before = lease.spec.unwrap_or_default();
        let stays = before.holder_identity.as_ref() == Some(&self.election.identity);
        let transitions = before.lease_transitions.unwrap_or_default();
        Lease {
            metadata: ObjectMeta {
                name: Some(self.election.name.clone()),
                ..lease.metadata
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.election.identity.clone()),
                lease_duration_seconds: Some(whole_seconds(self.election.times.lease_duration)),
                acquire_time: if stays {
                    before.acquire_time
                } else {
                    Some(now.clone())
                },
                renew_time: Some(now),
                lease_transitions: Some(if stays || before.holder_identity.is_none() {
                    transitions
                } else {
                    transitions.saturating_add(1)
                }),
                ..before
            }),
        }
    }
}

/// As a lease says it. Others wait rather too long than too short.
fn whole_seconds(duration: Duration) -> i32 {
    let more = u64::from(duration.subsec_nanos() > 0);
    i32::try_from(duration.as_secs().saturating_add(more)).unwrap_or(i32::MAX)
}

/// How long a lease lasts that nobody renews.
fn lasts(spec: &LeaseSpec) -> Duration {
    let seconds = spec.lease_duration_seconds.unwrap_or_default();
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

/// Whether another's lease has ended: nothing else was seen for as long as it lasts.
fn has_ended(sighting: Sighting, lasts: Duration, seen: &mut Option<Seen>) -> bool {
    match seen {
        Some(last) if last.sighting == sighting => last.since.elapsed() >= lasts,
        _ => {
            *seen = Some(Seen {
                sighting,
                since: Instant::now(),
                lasts,
            });
            false
        }
    }
}

#[cfg(test)]
mod tests;
