//! One process leads at a time, by a Lease that it renews.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::Error;
use crate::error::found;

/// How long a lease lasts that nobody renews, as upstream has it.
const DURATION: Duration = Duration::from_secs(15);
/// A leader that could not renew for so long stops before another can begin.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
const RENEW: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_secs(2);
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
}

/// A lease that this process has or wants.
pub(crate) struct Leadership {
    leases: Api<Lease>,
    election: Election,
}

/// What is wrong is said once, and again after a while.
#[derive(Default)]
struct Complaints {
    last: Option<(String, Instant)>,
}

impl Complaints {
    fn say(&mut self, problem: String) {
        if let Some((last, since)) = &self.last
            && *last == problem
            && since.elapsed() < COMPLAINTS
        {
            return;
        }
        tracing::warn!("the lease of the controllers cannot be had: {problem}");
        self.last = Some((problem, Instant::now()));
    }
}

/// Why this process leads no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    ToAnother,
    /// It could not be renewed, and may be another's soon.
    ByTime,
}

/// What was last seen of another's lease, and when: only time by one's own clock says that it has ended.
#[derive(PartialEq)]
struct Sighting {
    holder: String,
    renewed: Option<MicroTime>,
}

impl Leadership {
    pub(crate) fn new(client: Client, election: Election) -> Leadership {
        Leadership {
            leases: Api::namespaced(client, &election.namespace),
            election,
        }
    }

    /// Waits until this process leads. The time is the one before it asked: others count from a later one.
    pub(crate) async fn acquire(&self) -> Instant {
        let mut seen: Option<(Sighting, Instant)> = None;
        let mut complaints = Complaints::default();
        loop {
            let asked = Instant::now();
            match timeout(RENEW_DEADLINE, self.try_acquire(&mut seen)).await {
                Ok(Ok(true)) => return asked,
                Ok(Ok(false)) => {}
                Ok(Err(error)) if error.is_conflict() => {}
                Ok(Err(error)) => complaints.say(error.to_string()),
                Err(_) => complaints.say("the server does not answer in time".to_owned()),
            }
            sleep(RETRY).await;
        }
    }

    async fn try_acquire(&self, seen: &mut Option<(Sighting, Instant)>) -> Result<bool, Error> {
        let Some(mut lease) = found(self.leases.get(&self.election.name).await)? else {
            let lease = self.renewed(Lease::default());
            self.leases.create(&PostParams::default(), &lease).await?;
            return Ok(true);
        };
        let spec = lease.spec.get_or_insert_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        if !holder.is_empty() && holder != self.election.identity {
            let sighting = Sighting {
                holder,
                renewed: spec.renew_time.clone(),
            };
            let lasts = spec.lease_duration_seconds.unwrap_or_default();
            let lasts = Duration::from_secs(u64::try_from(lasts).unwrap_or_default());
            match seen {
                Some((last, since)) if *last == sighting => {
                    if since.elapsed() < lasts {
                        return Ok(false);
                    }
                }
                _ => {
                    *seen = Some((sighting, Instant::now()));
                    return Ok(false);
                }
            }
        }
        self.replace(self.renewed(lease)).await?;
        Ok(true)
    }

    /// Renews the lease, last renewed at `since`, until that fails for too long or another process has it.
    pub(crate) async fn keep(&self, since: Instant) -> Lost {
        let mut renewed = since;
        let mut pause = RENEW;
        loop {
            let deadline = renewed + RENEW_DEADLINE;
            sleep_until(deadline.min(Instant::now() + pause)).await;
            let asked = Instant::now();
            match timeout_at(deadline, self.renew()).await {
                Ok(Ok(true)) => {
                    renewed = asked;
                    pause = RENEW;
                }
                Ok(Ok(false)) => return Lost::ToAnother,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the lease of the controllers is not renewed");
                    pause = RETRY;
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
    pub(crate) async fn release(&self) {
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
            tracing::debug!(%error, "the lease of the controllers is not given back");
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
                lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
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

#[cfg(test)]
mod tests;
