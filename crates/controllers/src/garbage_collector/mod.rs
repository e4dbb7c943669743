//! Garbage collector: deletes objects whose owners are gone, according to the owner's deletion propagation policy.
//!
//! The metadata of every resource is watched. `graph` (upstream's `GraphBuilder`) holds the ownership relations and
//! yields the objects to check. Whether an owner exists is never decided from the graph but by a live lookup
//! (upstream's `attemptToDeleteItem`); `verdict` then decides. No state survives a restart: the initial lists yield
//! all open work.

mod graph;
mod invalid_owner_events;
mod objects;
mod process_object;
mod resource_mapper;
#[cfg(test)]
mod tests;
mod verdict;

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::discovery::ApiResource;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use self::graph::{ApiVersionKind, GraphAction, ObjectUid, OwnershipGraph};
use self::invalid_owner_events::InvalidOwnerReport;
use self::objects::PartialMetadata;
use self::resource_mapper::{ResourceMapper, kind_name};
use crate::{ControllerContext, Error};
use rhumb_client::reflector::watch;
use rhumb_client::work_queue::{ReconcileAction, WorkQueue};
use rhumb_meta::Backoff;

/// Objects that are processed concurrently.
const WORKERS: usize = 20;
/// Interval of API discovery.
const DISCOVERY_PAUSE: Duration = Duration::from_secs(30);
/// Delay after the first failed discovery at startup; doubles.
const FIRST_DISCOVERY_PAUSE: Duration = Duration::from_millis(100);
/// How long collection waits at startup for resources that cannot be listed.
const FIRST_LISTS_MAX: Duration = Duration::from_secs(30);
/// The watch may deliver dependents that were created just before their owner's deletion just after it. If they were
/// missed by the orphaning they would be deleted, so it is delayed a little.
const ORPHAN_PAUSE: Duration = Duration::from_millis(100);

/// Key of the work queue. Each is queued at most once, so the queue has at most two entries per graph node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum CollectorTask {
    Check(ObjectUid),
    Orphan(ObjectUid),
}

struct GarbageCollector {
    client: Client,
    graph: Mutex<OwnershipGraph>,
    mapper: Mutex<Arc<ResourceMapper>>,
    queue: WorkQueue<CollectorTask>,
    reports: mpsc::Sender<InvalidOwnerReport>,
}

pub(crate) async fn run(context: ControllerContext) -> Result<(), Error> {
    collect(context.client).await
}

async fn collect(client: Client) -> Result<(), Error> {
    let mapper = Arc::new(discover_until_success(&client).await);
    let (reports, report_receiver) = mpsc::channel(invalid_owner_events::WAITING_MAX);
    let collector = Arc::new(GarbageCollector {
        client,
        graph: Mutex::new(OwnershipGraph::new()),
        mapper: Mutex::new(mapper),
        queue: WorkQueue::new(),
        reports,
    });
    let (listing, mut listed) = mpsc::channel(1);
    let actions = async {
        // Nothing is ever sent: the channel closes when every initially discovered resource has been listed.
        if timeout(FIRST_LISTS_MAX, listed.recv()).await.is_err() {
            tracing::warn!(
                "initial lists are incomplete after 30s; starting garbage collection anyway"
            );
        }
        let handle = |task| collector.clone().handle(task);
        collector.queue.run_workers(WORKERS, handle).await
    };
    tokio::select! {
        error = watch_resources(&collector, listing) => Err(error),
        () = invalid_owner_events::record_events(&collector, report_receiver) => Ok(()),
        worked = actions => worked,
    }
}

/// Discovers the served resources, retrying until it succeeds.
async fn discover_until_success(client: &Client) -> ResourceMapper {
    let mut backoff = Backoff::new(FIRST_DISCOVERY_PAUSE, DISCOVERY_PAUSE);
    loop {
        match ResourceMapper::discover(client, &ResourceMapper::default()).await {
            Ok(mapper) => return mapper,
            Err(error) => tracing::debug!(%error, "API discovery failed; retrying"),
        }
        sleep(backoff.next_delay()).await;
    }
}

/// Starts and stops watches as resources appear and disappear in discovery, until a watch ends unexpectedly.
async fn watch_resources(collector: &Arc<GarbageCollector>, listing: mpsc::Sender<()>) -> Error {
    let mut listing = Some(listing);
    let mut tasks = JoinSet::new();
    let mut watches: HashMap<ApiResource, AbortHandle> = HashMap::new();
    loop {
        let mapper = collector.mapper();
        for resource in mapper.watched() {
            if !watches.contains_key(resource) {
                let task = collector
                    .clone()
                    .watch_resource(resource.clone(), listing.clone());
                watches.insert(resource.clone(), tasks.spawn(task));
            }
        }
        watches.retain(|resource, watch| {
            let stays = mapper.watched().any(|own| own == resource);
            if !stays {
                watch.abort();
                collector.stop_watching(&kind_name(resource), &mapper);
            }
            stays
        });
        listing = None;
        tokio::select! {
            () = sleep(DISCOVERY_PAUSE) => {}
            error = first_unexpected_end(&mut tasks) => return error,
        }
        match ResourceMapper::discover(&collector.client, &mapper).await {
            Ok(mapper) => *collector.lock(&collector.mapper) = Arc::new(mapper),
            Err(error) => tracing::debug!(%error, "API discovery failed; retrying"),
        }
    }
}

/// Waits for the first task that ends without being aborted.
async fn first_unexpected_end(tasks: &mut JoinSet<Result<(), Error>>) -> Error {
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Err(error) if error.is_cancelled() => {}
            Err(error) => return Error::Other(error.to_string()),
            Ok(Err(error)) => return error,
            Ok(Ok(())) => return Error::Other("a watch ended".to_owned()),
        }
    }
    std::future::pending().await
}

impl GarbageCollector {
    /// Feeds the events of a resource into the graph until dropped. `listing` is dropped after the first list.
    async fn watch_resource(
        self: Arc<Self>,
        resource: ApiResource,
        listing: Option<mpsc::Sender<()>>,
    ) -> Result<(), Error> {
        let mut listing = listing;
        let kind = kind_name(&resource);
        let api: Api<PartialMetadata> = Api::all_with(self.client.clone(), &resource);
        watch(api, Config::default(), |event| match event {
            Event::Apply(object) | Event::InitApply(object) => {
                let object = object.as_object();
                self.change(|graph, actions| graph.observe(&kind, &object, actions));
            }
            Event::Delete(object) => {
                let object = object.as_object();
                self.change(|graph, actions| graph.observe_deletion(&kind, &object, actions));
            }
            Event::Init => self.graph().begin_relist(&kind),
            Event::InitDone => {
                self.change(|graph, actions| graph.finish_relist(&kind, actions));
                listing = None;
            }
        })
        .await
    }

    /// The resource is no longer watched in this version.
    fn stop_watching(&self, kind: &ApiVersionKind, mapper: &ResourceMapper) {
        let mut others = mapper.watched().map(kind_name);
        if !others.any(|other| other.is_version_of(kind)) {
            self.change(|graph, actions| graph.remove_kind(kind, actions));
        }
    }

    async fn handle(self: Arc<Self>, task: CollectorTask) -> Result<ReconcileAction, Error> {
        match task {
            CollectorTask::Check(uid) => self.check(uid).await,
            CollectorTask::Orphan(uid) => self.orphan(uid).await,
        }
    }

    /// Changes the graph and queues the resulting actions.
    fn change<T>(&self, change: impl FnOnce(&mut OwnershipGraph, &mut Vec<GraphAction>) -> T) -> T {
        let mut actions = Vec::new();
        let result = change(&mut self.graph(), &mut actions);
        for actions in actions {
            match actions {
                GraphAction::Check(uid) => self.queue.add(CollectorTask::Check(uid)),
                GraphAction::Orphan(uid) => self
                    .queue
                    .add_after(CollectorTask::Orphan(uid), ORPHAN_PAUSE),
                GraphAction::Report(dependent, owner) => {
                    self.report(InvalidOwnerReport::Elsewhere(dependent, owner));
                }
            }
        }
        result
    }

    fn report(&self, report: InvalidOwnerReport) {
        if self.reports.try_send(report).is_err() {
            tracing::debug!("event queue full; dropping a report of an invalid owner reference");
        }
    }

    fn graph(&self) -> MutexGuard<'_, OwnershipGraph> {
        self.lock(&self.graph)
    }

    fn mapper(&self) -> Arc<ResourceMapper> {
        self.lock(&self.mapper).clone()
    }

    fn lock<'a, T>(&self, shared: &'a Mutex<T>) -> MutexGuard<'a, T> {
        shared.lock()
    }
}
