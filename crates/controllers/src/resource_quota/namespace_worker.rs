//! Tracks the usage of one namespace and writes the status of its quotas.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{BoxStream, SelectAll, StreamExt, select_all};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::{DynamicObject, PostParams};
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt};
use rhumb_client::error::none_if_not_found;
use rhumb_client::informer::{self, Event};
use rhumb_meta::{Backoff, Clock, SystemClock};
use rhumb_quota::{DeviceClassMapping, Evaluator};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::Quotas;
use super::device_class_informer::{DeviceClassInformer, DeviceClassReceiver};
use super::foreign_writes::ForeignWrites;
use super::tracked_usage::{TrackedUsage, counts};
use crate::Error;
use crate::api_resources::{self, DiscoveredResource};

/// Changes within this time of the first are written together.
const BATCH_DELAY: Duration = Duration::from_millis(30);

/// Minimum time between two writes.
const WRITE_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Delay before a status is computed again that was not written.
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// How often the status is checked without a change, as upstream.
const RESYNC: Duration = Duration::from_secs(300);

/// Backoff of failed discovery.
const DISCOVERY_RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// The index of a resource, and a change of one of its objects.
type ResourceEvent = (usize, Event<DynamicObject, String>);

/// Runs until the namespace has no quotas.
pub(super) async fn run(
    client: Client,
    reader: Client,
    namespace: String,
    quotas: watch::Receiver<Quotas>,
    device_class_informer: Arc<DeviceClassInformer>,
) {
    let mut worker = NamespaceWorker {
        quota_api: Api::namespaced(client, &namespace),
        reader,
        namespace,
        quotas,
        device_class_informer,
        device_classes: None,
        clock: SystemClock::new(),
        foreign_writes: ForeignWrites::default(),
    };
    while worker.track().await == TrackingEndReason::Restart {}
}

struct NamespaceWorker {
    quota_api: Api<ResourceQuota>,
    reader: Client,
    namespace: String,
    quotas: watch::Receiver<Quotas>,
    device_class_informer: Arc<DeviceClassInformer>,
    /// Subscribed while the usage depends on device classes.
    device_classes: Option<DeviceClassReceiver>,
    clock: SystemClock,
    foreign_writes: ForeignWrites,
}

#[derive(Debug, PartialEq, Eq)]
enum TrackingEndReason {
    /// The quotas count other things now.
    Restart,
    NoQuotas,
}

impl NamespaceWorker {
    /// Tracks the usage of what the quotas count now, until they count something else.
    async fn track(&mut self) -> TrackingEndReason {
        let quotas = self.quotas.borrow_and_update().clone();
        self.foreign_writes.observe(&quotas, Instant::now());
        let counted = self.counted_resources(&quotas).await;
        let evaluators = counted.iter().map(|(_, evaluator)| evaluator.clone());
        let mut usage = TrackedUsage::new(&quotas, evaluators.collect());
        self.device_classes = usage
            .uses_device_classes()
            .then(|| self.device_class_informer.subscribe());
        let resources = counted.into_iter().map(|(resource, _)| resource);
        let mut events = self.events(resources);
        let mut schedule = WriteSchedule::new();
        let mut resync_at = Instant::now() + RESYNC;
        schedule.write_after(BATCH_DELAY);
        loop {
            let lapse = usage.advance_time(self.clock.wall());
            let lapse = lapse.map(|at| at.saturating_duration_since(self.clock.wall()));
            let lapse_at = lapse.map(|delay| Instant::now() + delay.clamp(BATCH_DELAY, RESYNC));
            tokio::select! {
                Some((resource, event)) = events.next() => {
                    usage.handle_event(resource, event);
                    schedule.write_after(BATCH_DELAY);
                }
                changed = self.quotas.changed() => {
                    if changed.is_err() {
                        return TrackingEndReason::NoQuotas;
                    }
                    let quotas = self.quotas.borrow_and_update();
                    if !usage.set_quotas(&quotas) {
                        return TrackingEndReason::Restart;
                    }
                    self.foreign_writes.observe(&quotas, Instant::now());
                    schedule.write_after(BATCH_DELAY);
                }
                device_classes = changed_device_classes(&mut self.device_classes) => {
                    usage.set_device_classes(&device_classes);
                    schedule.write_after(BATCH_DELAY);
                }
                () = wait_until(schedule.due), if usage.is_complete() => {
                    schedule.record_write();
                    if !self.write(&usage).await {
                        schedule.write_after(RETRY_DELAY);
                    }
                }
                () = wait_until(lapse_at) => schedule.write_after(BATCH_DELAY),
                () = sleep_until(resync_at) => {
                    // The resource may be served now.
                    if usage.has_unknown_names() {
                        return TrackingEndReason::Restart;
                    }
                    schedule.write_after(BATCH_DELAY);
                    resync_at = Instant::now() + RESYNC;
                }
            }
        }
    }

    /// The served resources that the quotas count.
    async fn counted_resources(&mut self, quotas: &Quotas) -> Vec<(DiscoveredResource, Evaluator)> {
        let mut backoff = DISCOVERY_RETRY;
        let discovered = loop {
            match api_resources::discover(&self.reader).await {
                Ok(discovered) => break discovered,
                Err(error) => {
                    let delay = backoff.next_delay();
                    tracing::warn!(
                        namespace = self.namespace,
                        %error,
                        retry_in = ?delay,
                        "failed to discover the resources that quotas count; retrying"
                    );
                    sleep(delay).await;
                }
            }
        };
        let watchable = discovered.best().filter(|resource| {
            resource.is_namespaced && resource.can("list") && resource.can("watch")
        });
        let counted = watchable.filter_map(|resource| {
            let evaluator = Evaluator::for_resource(&resource.api.group, &resource.api.plural)?;
            counts(quotas, &evaluator).then(|| (resource.clone(), evaluator))
        });
        counted.collect()
    }

    /// The changes of all objects of the resources in the namespace, with the index of the resource.
    fn events(
        &self,
        resources: impl Iterator<Item = DiscoveredResource>,
    ) -> SelectAll<BoxStream<'static, ResourceEvent>> {
        let streams = resources.enumerate().map(|(index, resource)| {
            let objects = resource.in_namespace(&self.reader, &self.namespace);
            let events = informer::events(objects, Config::default(), ResourceExt::name_any);
            events.map(move |event| (index, event)).boxed()
        });
        select_all(streams)
    }

    /// Writes each status that differs. Returns whether all quotas have the right one now.
    async fn write(&mut self, usage: &TrackedUsage) -> bool {
        let stale = usage.stale(&self.quotas.borrow());
        let mut is_done = true;
        for quota in stale {
            let name = quota.name_any();
            if self.foreign_writes.is_held(&name, Instant::now()) {
                is_done = false;
                continue;
            }
            let params = PostParams::default();
            let written = self.quota_api.replace_status(&name, &params, &quota).await;
            match none_if_not_found(written) {
                Ok(Some(written)) => self.foreign_writes.record_own(&written),
                Ok(None) => {}
                Err(error) => {
                    is_done = false;
                    self.log_failure(&name, &error);
                }
            }
        }
        is_done
    }

    fn log_failure(&self, quota: &str, error: &Error) {
        let namespace = &self.namespace;
        if error.is_conflict() {
            tracing::debug!(%namespace, quota, "quota has changed; its status is computed again");
        } else {
            tracing::warn!(%namespace, quota, %error, "failed to write quota status; retrying");
        }
    }
}

/// When the status is written next.
struct WriteSchedule {
    due: Option<Instant>,
    earliest: Instant,
}

impl WriteSchedule {
    fn new() -> WriteSchedule {
        WriteSchedule {
            due: None,
            earliest: Instant::now(),
        }
    }

    fn write_after(&mut self, delay: Duration) {
        let at = self.earliest.max(Instant::now() + delay);
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    fn record_write(&mut self) {
        self.due = None;
        self.earliest = Instant::now() + WRITE_INTERVAL_MIN;
    }
}

/// The extended resources of device classes once they are listed and when they have changed.
async fn changed_device_classes(
    receiver: &mut Option<DeviceClassReceiver>,
) -> Arc<DeviceClassMapping> {
    if let Some(receiver) = receiver {
        while receiver.changed().await.is_ok() {
            let device_classes = receiver.borrow_and_update().clone();
            if let Some(device_classes) = device_classes {
                return device_classes;
            }
        }
    }
    std::future::pending().await
}

async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
