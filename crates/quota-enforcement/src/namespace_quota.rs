//! Reserves quota for a write, or denies it: [`QuotaEnforcer::reserve`] and the per-namespace registry behind it
//! (upstream: `quotaEvaluator.checkRequest` of the ResourceQuota admission plugin).

use parking_lot::Mutex;
use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rhumb_api::JsonObject;
use rhumb_meta::{Revision, Status, Timestamp};
use rhumb_quota::{
    Evaluator, LimitedResource, ObjectUsage, QuotaDenial, QuotaVerdict, ReservationId, UsageRequest,
};
use tokio::sync::{Notify, OwnedMutexGuard, Semaphore};
use tokio::time::{Instant, timeout};

use super::epoch::{EpochView, TakeoverBackoff};
use super::usage_tracker::UsageTracker;
use crate::quota_enforcer::QuotaEnforcer;
use crate::reservation::QuotaReservation;
use rhumb_registry::Registry;
use rhumb_registry::RequestContext;
use rhumb_registry::objects::ObjectMetadata;
use rhumb_registry::write::{EncodedObject, Precondition};

/// How long a waiting write sleeps before it checks again without having been notified.
const RECHECK_INTERVAL: Duration = Duration::from_millis(250);

/// How long the reservation of a write with unknown outcome is kept.
const UNKNOWN_OUTCOME_TTL: Duration = Duration::from_secs(60);

/// A write that needs quota.
#[derive(Debug)]
pub struct QuotaRequest<'a> {
    pub context: &'a RequestContext<'a>,
    pub namespace: &'a str,
    pub evaluator: &'a Evaluator,
    pub object: &'a EncodedObject<'a>,
    /// What quotas count of the object, if it has been computed.
    pub counted: Option<&'a CountedObject>,
    /// Usage of the object before the write; absent for a creation.
    pub old_usage: Option<&'a ObjectUsage>,
    pub limited_resources: &'a [LimitedResource],
}

/// What quotas count of an object.
#[derive(Debug, Clone)]
pub struct CountedObject {
    pub(crate) usage: ObjectUsage,
    /// UID by which the cache will show a created object.
    pub(crate) uid: String,
}

impl CountedObject {
    pub fn new(evaluator: &Evaluator, object: &JsonObject) -> CountedObject {
        CountedObject {
            usage: evaluator.usage(object),
            uid: object.uid().to_owned(),
        }
    }
}

/// Why no quota was reserved.
#[derive(Debug)]
pub enum ReservationError {
    Denied(QuotaDenial),
    Failed(Status),
}

impl From<Status> for ReservationError {
    fn from(status: Status) -> Self {
        ReservationError::Failed(status)
    }
}

/// What a write is admitted with: conditions for its commit, and the reservation to settle afterwards.
#[derive(Debug, Default)]
pub struct QuotaGrant {
    /// The namespace's epoch key is unchanged, so the quotas that were checked are still in force.
    pub precondition: Option<Precondition>,
    pub reservation: Option<QuotaReservation>,
}

impl QuotaEnforcer {
    /// Whether a quota or the configuration's `limitedResources` may limit writes of the resource in the namespace.
    pub fn may_limit(
        &self,
        context: &RequestContext<'_>,
        namespace: &str,
        limited: &[LimitedResource],
    ) -> bool {
        let resource = &context.resource.group_resource;
        let mut limited = limited.iter();
        limited.any(|limited| limited.applies_to(&resource.group, &resource.resource))
            || self.for_namespace(namespace).is_some()
    }

    /// Reserves quota for a write. Waits, up to the deadline, for quota that writes in progress may release.
    pub async fn reserve(
        &self,
        request: &QuotaRequest<'_>,
        deadline: Instant,
    ) -> Result<QuotaGrant, ReservationError> {
        let epoch = self
            .epochs
            .view(request.context.registry, request.namespace)
            .await?;
        if !self.may_limit(
            request.context,
            request.namespace,
            request.limited_resources,
        ) {
            return Ok(QuotaGrant {
                precondition: Some(epoch.precondition),
                reservation: None,
            });
        }
        let Some(delta) = UsageDelta::for_request(request)? else {
            return Ok(QuotaGrant::default());
        };
        let started = Instant::now();
        // Boxed to keep the future small in namespaces without quotas.
        let result = Box::pin(self.reserve_until(deadline, request, &delta, epoch)).await;
        let resource = &request.context.resource.group_resource;
        self.metrics
            .record_evaluation(resource, started.elapsed(), &result);
        result
    }

    async fn reserve_until(
        &self,
        deadline: Instant,
        request: &QuotaRequest<'_>,
        delta: &UsageDelta<'_>,
        mut epoch: EpochView,
    ) -> Result<QuotaGrant, ReservationError> {
        let mut is_consistent = false;
        loop {
            match self.try_reserve(request, delta, epoch).await? {
                ReservationAttemptResult::Granted(grant) => return Ok(grant),
                // Another server may have freed quota just now: deny only after a consistent read.
                ReservationAttemptResult::Denied(_) if !is_consistent => {
                    request
                        .context
                        .registry
                        .await_consistent(request.context)
                        .await?;
                    is_consistent = true;
                }
                ReservationAttemptResult::Denied(denial) => {
                    return Err(ReservationError::Denied(denial));
                }
                ReservationAttemptResult::Retry if Instant::now() < deadline => {
                    is_consistent = false;
                }
                ReservationAttemptResult::Retry => {
                    return Err(request.context.retry_later().into());
                }
            }
            epoch = self
                .epochs
                .view(request.context.registry, request.namespace)
                .await?;
        }
    }

    async fn try_reserve(
        &self,
        request: &QuotaRequest<'_>,
        delta: &UsageDelta<'_>,
        epoch: EpochView,
    ) -> Result<ReservationAttemptResult, ReservationError> {
        let grant = |epoch: EpochView, reservation| {
            ReservationAttemptResult::Granted(QuotaGrant {
                precondition: Some(epoch.precondition),
                reservation,
            })
        };
        let usage_request = delta.usage_request(request);
        let Some(namespace_quota) = self.for_namespace(request.namespace) else {
            return Ok(
                match self
                    .usage_without_quotas()
                    .check(&usage_request, request.limited_resources)
                {
                    QuotaVerdict::Denied(denial) => ReservationAttemptResult::Denied(denial),
                    _ => grant(epoch, None),
                },
            );
        };
        let mut released = pin!(namespace_quota.released.notified());
        released.as_mut().enable();
        let mut tracker = namespace_quota
            .lock_tracker(request.context.registry)
            .await?;
        if !self.is_current(request.namespace, &namespace_quota) {
            return Ok(ReservationAttemptResult::Retry);
        }
        match tracker
            .usage
            .check(&usage_request, request.limited_resources)
        {
            QuotaVerdict::Free => Ok(grant(epoch, None)),
            QuotaVerdict::Denied(denial) => Ok(ReservationAttemptResult::Denied(denial)),
            QuotaVerdict::Fits | QuotaVerdict::Wait if !epoch.is_held_here => {
                drop(tracker);
                self.take_over_epoch(request, &namespace_quota).await?;
                Ok(ReservationAttemptResult::Retry)
            }
            QuotaVerdict::Fits => {
                let (new, old) = (delta.new.usage.clone(), delta.old.cloned());
                let id = tracker.usage.reserve(new, old, delta.new_uid());
                let reservation = QuotaReservation::new(Arc::clone(&namespace_quota), id);
                Ok(grant(epoch, Some(reservation)))
            }
            QuotaVerdict::Wait => {
                drop(tracker);
                let _ = timeout(RECHECK_INTERVAL, released).await;
                Ok(ReservationAttemptResult::Retry)
            }
        }
    }

    /// Takes over the epoch of the namespace, once for all requests that wait for it.
    async fn take_over_epoch(
        &self,
        request: &QuotaRequest<'_>,
        namespace_quota: &NamespaceQuota,
    ) -> Result<(), ReservationError> {
        let mut takeover = namespace_quota.takeover.lock().await;
        let epoch = self
            .epochs
            .view(request.context.registry, request.namespace)
            .await?;
        if !epoch.is_held_here {
            let has_committed = namespace_quota.has_committed.swap(false, Ordering::Relaxed);
            let takeover_result =
                self.epochs
                    .take_over(request.context, &mut takeover, epoch, has_committed);
            takeover_result.await?;
        }
        Ok(())
    }

    /// Checks a dry-run write against stored usage, without a reservation.
    pub async fn check_dry_run(&self, request: &QuotaRequest<'_>) -> Result<(), ReservationError> {
        let Some(delta) = UsageDelta::for_request(request)? else {
            return Ok(());
        };
        request
            .context
            .registry
            .await_consistent(request.context)
            .await?;
        let usage_request = delta.usage_request(request);
        let verdict = match self.for_namespace(request.namespace) {
            Some(namespace_quota) => {
                let tracker = namespace_quota
                    .lock_tracker(request.context.registry)
                    .await?;
                tracker
                    .usage
                    .check(&usage_request, request.limited_resources)
            }
            None => self
                .usage_without_quotas()
                .check(&usage_request, request.limited_resources),
        };
        match verdict {
            QuotaVerdict::Denied(denial) => Err(ReservationError::Denied(denial)),
            QuotaVerdict::Free | QuotaVerdict::Fits | QuotaVerdict::Wait => Ok(()),
        }
    }
}

/// Result of one attempt to reserve quota.
enum ReservationAttemptResult {
    Granted(QuotaGrant),
    Denied(QuotaDenial),
    /// Writes or an epoch takeover are in progress; try again.
    Retry,
}

/// Usage of the object after and before a write.
#[derive(Debug)]
struct UsageDelta<'a> {
    new: Cow<'a, CountedObject>,
    old: Option<&'a ObjectUsage>,
}

impl<'a> UsageDelta<'a> {
    /// `None` if the write does not change the usage.
    fn for_request(request: &QuotaRequest<'a>) -> Result<Option<UsageDelta<'a>>, Status> {
        let new = match request.counted {
            Some(counted) => Cow::Borrowed(counted),
            None => {
                let object = request.object.decode()?;
                Cow::Owned(CountedObject::new(request.evaluator, &object))
            }
        };
        let old = request.old_usage;
        Ok((old != Some(&new.usage)).then_some(UsageDelta { new, old }))
    }

    /// The UID of a created object; `None` for updates.
    fn new_uid(&self) -> Option<&str> {
        self.old.is_none().then_some(&*self.new.uid)
    }

    fn usage_request<'r>(&'r self, request: &'r QuotaRequest<'_>) -> UsageRequest<'r> {
        let resource = &request.context.resource.group_resource;
        UsageRequest {
            group: &resource.group,
            resource: &resource.resource,
            evaluator: request.evaluator,
            new_usage: &self.new.usage,
            old_usage: self.old,
            object: request.object,
        }
    }
}

/// How a write with a reservation ended.
#[derive(Debug, Clone, Copy)]
pub(super) enum ReservationOutcome {
    Committed(Revision),
    Failed,
    /// The write may have been committed, or may still be.
    Unknown,
}

/// Usage, reservations and epoch registry of one namespace.
#[derive(Debug)]
pub(super) struct NamespaceQuota {
    /// Limits concurrent rebuilds of all namespaces.
    rebuild_permits: Arc<Semaphore>,
    tracker: Arc<tokio::sync::Mutex<UsageTracker>>,
    outcomes: Mutex<Vec<(ReservationId, ReservationOutcome)>>,
    /// Wakes writes that wait for a reservation to be released.
    released: Notify,
    /// Locked by the request that takes over the epoch.
    takeover: tokio::sync::Mutex<TakeoverBackoff>,
    /// Whether a reservation was committed since the last takeover.
    has_committed: AtomicBool,
    /// Start of the last status refresh. Locked by the task that refreshes the status.
    pub(super) status_refreshed_at: tokio::sync::Mutex<Option<Instant>>,
}

impl NamespaceQuota {
    pub(super) fn new(tracker: UsageTracker, rebuild_permits: Arc<Semaphore>) -> NamespaceQuota {
        NamespaceQuota {
            rebuild_permits,
            tracker: Arc::new(tokio::sync::Mutex::new(tracker)),
            outcomes: Mutex::default(),
            released: Notify::new(),
            takeover: tokio::sync::Mutex::default(),
            has_committed: AtomicBool::new(false),
            status_refreshed_at: tokio::sync::Mutex::default(),
        }
    }

    /// Locks the tracker after bringing it up to date with the caches.
    pub(super) async fn lock_tracker(
        &self,
        registry: &Arc<Registry>,
    ) -> Result<OwnedMutexGuard<UsageTracker>, Status> {
        let mut tracker = Arc::clone(&self.tracker).lock_owned().await;
        let now = registry.clock.wall();
        loop {
            let needs_rebuild = tracker.sync_quotas();
            if tracker.sync_resources(&registry.resources.load()) || needs_rebuild {
                tracker =
                    rebuild_usage(registry, Arc::clone(&self.rebuild_permits), tracker).await?;
            }
            // Take outcomes before catching up: the objects of these writes are in the usage by the time their
            // reservations are released.
            let outcomes = std::mem::take(&mut *self.lock_outcomes());
            apply_outcomes(&mut tracker, &outcomes, now);
            tracker.catch_up(now);
            if !tracker.needs_rebuild() {
                return Ok(tracker);
            }
        }
    }

    pub(super) fn settle(&self, id: ReservationId, outcome: ReservationOutcome) {
        if matches!(outcome, ReservationOutcome::Committed(_)) {
            self.has_committed.store(true, Ordering::Relaxed);
        }
        self.lock_outcomes().push((id, outcome));
        self.released.notify_waiters();
    }

    fn lock_outcomes(
        &self,
    ) -> parking_lot::MutexGuard<'_, Vec<(ReservationId, ReservationOutcome)>> {
        self.outcomes.lock()
    }
}

/// Rebuilds the usage of a namespace on a blocking thread.
async fn rebuild_usage(
    registry: &Arc<Registry>,
    permits: Arc<Semaphore>,
    mut tracker: OwnedMutexGuard<UsageTracker>,
) -> Result<OwnedMutexGuard<UsageTracker>, Status> {
    let permit = permits.acquire_owned().await;
    let permit = permit.map_err(Status::internal_error)?;
    let registry = Arc::clone(registry);
    let rebuild = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        tracker.rebuild(&registry.resources());
        tracker.catch_up(registry.clock.wall());
        tracker
    });
    rebuild.await.map_err(Status::internal_error)
}

fn apply_outcomes(
    tracker: &mut UsageTracker,
    outcomes: &[(ReservationId, ReservationOutcome)],
    now: Timestamp,
) {
    for &(id, outcome) in outcomes {
        match outcome {
            ReservationOutcome::Committed(revision) => tracker.release_after(id, revision),
            ReservationOutcome::Failed => tracker.usage.release(id),
            ReservationOutcome::Unknown => tracker
                .usage
                .expire_at(id, now.saturating_add(UNKNOWN_OUTCOME_TTL)),
        }
    }
}
