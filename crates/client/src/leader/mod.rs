//! Leader election with a `coordination.k8s.io` Lease. Corresponds to client-go's `tools/leaderelection`; entry point
//! [`LeaderElector`]: `acquire`, then `renew_until_lost`, then `release`.

mod deadline;

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

pub use deadline::LeadershipDeadline;

use crate::Error;
use crate::error::none_if_not_found;

/// Minimum interval between two equal warnings.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);
/// Releasing the lease is best effort and must not delay the shutdown for longer.
const RELEASE_MAX: Duration = Duration::from_secs(2);

/// Configuration of a leader election: the candidate's identity and the Lease object.
#[derive(Debug, Clone)]
pub struct LeaderElectionConfig {
    pub identity: String,
    pub namespace: String,
    pub name: String,
    /// What the leader runs, for log messages: "the controllers".
    pub component: &'static str,
    pub timings: LeaseTimings,
}

/// Timing of the lease, with client-go's names. `renew_deadline` must be less than `lease_duration`, so that a leader
/// stops before another process can start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTimings {
    /// How long a lease is valid without renewal.
    pub lease_duration: Duration,
    /// A leader that fails to renew for this long gives up. It renews at half this interval.
    pub renew_deadline: Duration,
    /// Interval between attempts to acquire the lease, and between attempts to renew it after a failure.
    pub retry_period: Duration,
}

impl Default for LeaseTimings {
    /// Upstream's defaults.
    fn default() -> LeaseTimings {
        LeaseTimings {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// A period in which this process is the leader.
#[derive(Debug)]
pub struct LeadershipTerm {
    pub deadline: LeadershipDeadline,
    pub previous_holder: PreviousHolder,
}

/// Who held the lease before. Writes of a previous holder that did not release it may still be in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreviousHolder {
    /// Nobody: the lease was released.
    Released,
    /// This process, or an earlier one with the same identity.
    SameIdentity,
    /// Another process, or unknown because the Lease did not exist: it may have been deleted.
    OtherOrUnknown,
}

/// Acquires, renews and releases the lease on behalf of this process.
#[derive(Debug)]
pub struct LeaderElector {
    leases: Api<Lease>,
    config: LeaderElectionConfig,
}

/// Logs a repeated problem only once per interval.
#[derive(Default)]
struct ThrottledWarnings {
    last: Option<(String, Instant)>,
}

impl ThrottledWarnings {
    fn warn(&mut self, led: &str, problem: String) {
        if let Some((last, since)) = &self.last
            && *last == problem
            && since.elapsed() < WARNING_INTERVAL
        {
            return;
        }
        tracing::warn!(component = led, %problem, "failed to acquire the leader lease; retrying");
        self.last = Some((problem, Instant::now()));
    }
}

/// Why this process is no longer the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeadershipLoss {
    /// Another process holds the lease, or the Lease was deleted.
    HeldByOther,
    /// The lease was not renewed before the deadline; another process may acquire it soon.
    RenewDeadline,
}

/// What was observed of another holder's lease. Only local time since the last change decides that it has expired, as
/// the clocks of other hosts are not trusted.
#[derive(Debug, PartialEq)]
enum ObservedRecord {
    Held {
        holder: String,
        renewed: Option<MicroTime>,
    },
    /// The Lease was deleted. Its holder may not know yet.
    Deleted,
}

/// An observed record, when it was first observed, and how long it has to stay unchanged until the lease has expired.
#[derive(Debug)]
struct LeaseObservation {
    record: ObservedRecord,
    since: Instant,
    lease_duration: Duration,
}

impl LeaderElector {
    pub fn new(client: Client, config: LeaderElectionConfig) -> LeaderElector {
        LeaderElector {
            leases: Api::namespaced(client, &config.namespace),
            config,
        }
    }

    /// Waits until this process is the leader.
    pub async fn acquire(&self) -> LeadershipTerm {
        let times = self.config.timings;
        let mut seen: Option<LeaseObservation> = None;
        let mut warnings = ThrottledWarnings::default();
        loop {
            // Taken before the request: other processes measure from a later time.
            let requested = Instant::now();
            let problem = match timeout(times.renew_deadline, self.try_acquire(&mut seen)).await {
                Ok(Ok(Some(previous_holder))) => {
                    let lead = LeadershipDeadline::new(requested, times.renew_deadline);
                    return LeadershipTerm {
                        deadline: lead,
                        previous_holder,
                    };
                }
                Ok(Ok(None)) => None,
                Ok(Err(error)) if error.is_conflict() => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some("timed out waiting for the API server".to_owned()),
            };
            if let Some(problem) = problem {
                warnings.warn(self.config.component, problem);
            }
            sleep(times.retry_period).await;
        }
    }

    /// Tries to acquire the lease once and returns its previous holder; `None` if another process holds it.
    async fn try_acquire(
        &self,
        seen: &mut Option<LeaseObservation>,
    ) -> Result<Option<PreviousHolder>, Error> {
        let Some(mut lease) = none_if_not_found(self.leases.get(&self.config.name).await)? else {
            let lasts = seen.as_ref().map(|seen| seen.lease_duration);
            if lasts.is_some_and(|lasts| !has_expired(ObservedRecord::Deleted, lasts, seen)) {
                return Ok(None);
            }
            let lease = self.with_renewal(Lease::default());
            self.leases.create(&PostParams::default(), &lease).await?;
            return Ok(Some(PreviousHolder::OtherOrUnknown));
        };
        let spec = lease.spec.get_or_insert_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        let before = match holder.as_str() {
            "" => PreviousHolder::Released,
            holder if holder == self.config.identity => PreviousHolder::SameIdentity,
            _ => PreviousHolder::OtherOrUnknown,
        };
        let sighting = ObservedRecord::Held {
            holder,
            renewed: spec.renew_time.clone(),
        };
        if before == PreviousHolder::OtherOrUnknown
            && !has_expired(sighting, lease_duration(spec), seen)
        {
            return Ok(None);
        }
        self.replace(self.with_renewal(lease)).await?;
        Ok(Some(before))
    }

    /// Renews the lease until the renew deadline passes or another process holds it.
    pub async fn renew_until_lost(&self, lead: &LeadershipDeadline) -> LeadershipLoss {
        let lost = self.renew_loop(lead).await;
        lead.expire();
        lost
    }

    async fn renew_loop(&self, lead: &LeadershipDeadline) -> LeadershipLoss {
        let LeaderElectionConfig {
            component: led,
            timings,
            ..
        } = self.config;
        let renew_interval = timings.renew_deadline / 2;
        let mut pause = renew_interval;
        loop {
            let deadline = lead.valid_until();
            sleep_until(deadline.min(Instant::now() + pause)).await;
            let requested = Instant::now();
            match timeout_at(deadline, self.renew()).await {
                // If this process was suspended, another one may have taken over in the meantime.
                Ok(_) if Instant::now() >= deadline => return LeadershipLoss::RenewDeadline,
                Ok(Ok(true)) => {
                    lead.extend(requested);
                    pause = renew_interval;
                }
                Ok(Ok(false)) => return LeadershipLoss::HeldByOther,
                Ok(Err(error)) => {
                    tracing::warn!(%error, component = led, "failed to renew the leader lease; retrying");
                    pause = timings.retry_period;
                }
                Err(_) => return LeadershipLoss::RenewDeadline,
            }
        }
    }

    /// Renews the lease once. False if this process no longer holds it; a deleted Lease counts as lost, because another
    /// process may have created it since.
    async fn renew(&self) -> Result<bool, Error> {
        let lease = none_if_not_found(self.leases.get(&self.config.name).await)?;
        let Some(lease) = lease.filter(|lease| self.is_held_by_us(lease)) else {
            return Ok(false);
        };
        self.replace(self.with_renewal(lease)).await?;
        Ok(true)
    }

    /// Releases the lease, so that the next leader need not wait until it expires.
    pub async fn release(&self) {
        let release = async {
            let mut lease = self.leases.get(&self.config.name).await?;
            if self.is_held_by_us(&lease) {
                let spec = lease.spec.get_or_insert_default();
                spec.holder_identity = Some(String::new());
                spec.lease_duration_seconds = Some(1);
                self.replace(lease).await?;
            }
            Ok::<(), Error>(())
        };
        if let Ok(Err(error)) = timeout(RELEASE_MAX, release).await {
            let component = self.config.component;
            tracing::debug!(%error, component, "failed to release the leader lease; it will expire");
        }
    }

    fn is_held_by_us(&self, lease: &Lease) -> bool {
        let holder = lease
            .spec
            .as_ref()
            .and_then(|spec| spec.holder_identity.as_ref());
        holder == Some(&self.config.identity)
    }

    async fn replace(&self, lease: Lease) -> Result<(), Error> {
        let params = PostParams::default();
        self.leases
            .replace(&self.config.name, &params, &lease)
            .await?;
        Ok(())
    }

    /// The lease with this process as holder, renewed now.
    fn with_renewal(&self, lease: Lease) -> Lease {
        let now = MicroTime(Timestamp::now());
        let before = lease.spec.unwrap_or_default();
        let is_same_holder = before.holder_identity.as_ref() == Some(&self.config.identity);
        let transitions = before.lease_transitions.unwrap_or_default();
        Lease {
            metadata: ObjectMeta {
                name: Some(self.config.name.clone()),
                ..lease.metadata
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.config.identity.clone()),
                lease_duration_seconds: Some(whole_seconds(self.config.timings.lease_duration)),
                acquire_time: if is_same_holder {
                    before.acquire_time
                } else {
                    Some(now.clone())
                },
                renew_time: Some(now),
                lease_transitions: Some(if is_same_holder || before.holder_identity.is_none() {
                    transitions
                } else {
                    transitions.saturating_add(1)
                }),
                ..before
            }),
        }
    }
}

/// The duration in whole seconds, rounded up: other processes must not wait too short.
fn whole_seconds(duration: Duration) -> i32 {
    let round_up = u64::from(duration.subsec_nanos() > 0);
    i32::try_from(duration.as_secs().saturating_add(round_up)).unwrap_or(i32::MAX)
}

/// How long the lease is valid without renewal.
fn lease_duration(spec: &LeaseSpec) -> Duration {
    let seconds = spec.lease_duration_seconds.unwrap_or_default();
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

/// Whether another holder's lease has expired: its record has not changed for the lease duration, by the local clock.
fn has_expired(
    sighting: ObservedRecord,
    lasts: Duration,
    seen: &mut Option<LeaseObservation>,
) -> bool {
    match seen {
        Some(last) if last.record == sighting => last.since.elapsed() >= lasts,
        _ => {
            *seen = Some(LeaseObservation {
                record: sighting,
                since: Instant::now(),
                lease_duration: lasts,
            });
            false
        }
    }
}

#[cfg(test)]
mod tests;
