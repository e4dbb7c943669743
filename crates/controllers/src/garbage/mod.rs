//! Garbage: objects whose owners are gone go too, in the way that the deletion of the owner asked for.
//!
//! Every kind is watched by its metadata. The `graph` knows who owns whom and says which objects to look at; that
//! an owner is there or not is never taken from it, but asked of the server (`work`). What follows is decided in
//! `verdict`. Nothing is kept over a restart: the lists that the watches begin with show all that was left undone.

mod graph;
mod objects;
mod reports;
mod served;
#[cfg(test)]
mod tests;
mod verdict;
mod work;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::discovery::ApiResource;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use self::graph::{Graph, KindName, Uid, Work};
use self::objects::Meta;
use self::reports::Report;
use self::served::{Served, kind_name};
use crate::queue::{Done, Queue};
use crate::{Context, Error};
use rhumb_client::watching::watch;

/// Objects that are worked on at the same time.
const WORKERS: usize = 20;
/// How often the server is asked which kinds it has.
const DISCOVERY_PAUSE: Duration = Duration::from_secs(30);
/// The first pause while the server does not say which kinds it has, at the start; it doubles.
const FIRST_DISCOVERY_PAUSE: Duration = Duration::from_millis(100);
/// How long a kind that cannot be listed holds the work on all others, at the start.
const FIRST_LISTS_MAX: Duration = Duration::from_secs(30);
/// Dependents that were made just before their owner was deleted may be told of just after. To orphan without
/// them would be to delete them, so there is a moment for them to come.
const ORPHAN_PAUSE: Duration = Duration::from_millis(100);

/// What a worker does. A queue holds each once, so it is never longer than twice the graph.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Task {
    Check(Uid),
    Orphan(Uid),
}

struct Collector {
    client: Client,
    graph: Mutex<Graph>,
    served: Mutex<Arc<Served>>,
    queue: Queue<Task>,
    reports: mpsc::Sender<Report>,
}

pub(crate) async fn run(context: Context) -> Result<(), Error> {
    collect(context.client).await
}

async fn collect(client: Client) -> Result<(), Error> {
    let served = Arc::new(first_served(&client).await);
    let (reports, told) = mpsc::channel(reports::WAITING_MAX);
    let collector = Arc::new(Collector {
        client,
        graph: Mutex::new(Graph::new()),
        served: Mutex::new(served),
        queue: Queue::new(),
        reports,
    });
    let (listing, mut listed) = mpsc::channel(1);
    let work = async {
        // Nothing is ever sent: the channel closes when every kind that was there at first has been listed.
        if timeout(FIRST_LISTS_MAX, listed.recv()).await.is_err() {
            tracing::warn!("not all kinds could be listed; garbage is collected nevertheless");
        }
        let handle = |task| collector.clone().handle(task);
        collector.queue.work(WORKERS, handle).await
    };
    tokio::select! {
        error = follow_kinds(&collector, listing) => Err(error),
        () = reports::tell(&collector, told) => Ok(()),
        worked = work => worked,
    }
}

/// The kinds of the server, as soon as it tells them.
async fn first_served(client: &Client) -> Served {
    let mut pause = FIRST_DISCOVERY_PAUSE;
    loop {
        match Served::discover(client, &Served::default()).await {
            Ok(served) => return served,
            Err(error) => tracing::debug!(%error, "the kinds of the server are not known"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(DISCOVERY_PAUSE);
    }
}

/// Watches all kinds that the server has, as they come and go, until a watch ends that should not.
async fn follow_kinds(collector: &Arc<Collector>, listing: mpsc::Sender<()>) -> Error {
    let mut listing = Some(listing);
    let mut tasks = JoinSet::new();
    let mut watches: HashMap<ApiResource, AbortHandle> = HashMap::new();
    loop {
        let served = collector.served();
        for resource in served.watched() {
            if !watches.contains_key(resource) {
                let task = collector.clone().follow(resource.clone(), listing.clone());
                watches.insert(resource.clone(), tasks.spawn(task));
            }
        }
        watches.retain(|resource, watch| {
            let stays = served.watched().any(|own| own == resource);
            if !stays {
                watch.abort();
                collector.forget(&kind_name(resource), &served);
            }
            stays
        });
        listing = None;
        tokio::select! {
            () = sleep(DISCOVERY_PAUSE) => {}
            error = first_end(&mut tasks) => return error,
        }
        match Served::discover(&collector.client, &served).await {
            Ok(served) => *collector.lock(&collector.served) = Arc::new(served),
            Err(error) => tracing::debug!(%error, "the kinds of the server are not known"),
        }
    }
}

/// Waits for the first task that ends by itself.
async fn first_end(tasks: &mut JoinSet<Result<(), Error>>) -> Error {
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

impl Collector {
    /// Has the graph follow all objects of a kind, until it is dropped. `listing` is held until the first list ends.
    async fn follow(
        self: Arc<Self>,
        resource: ApiResource,
        listing: Option<mpsc::Sender<()>>,
    ) -> Result<(), Error> {
        let mut listing = listing;
        let kind = kind_name(&resource);
        let api: Api<Meta> = Api::all_with(self.client.clone(), &resource);
        watch(api, Config::default(), |event| match event {
            Event::Apply(object) | Event::InitApply(object) => {
                let object = object.as_object();
                self.change(|graph, work| graph.observe(&kind, &object, work));
            }
            Event::Delete(object) => {
                let object = object.as_object();
                self.change(|graph, work| graph.gone(&kind, &object, work));
            }
            Event::Init => self.graph().list_begins(&kind),
            Event::InitDone => {
                self.change(|graph, work| graph.list_ends(&kind, work));
                listing = None;
            }
        })
        .await
    }

    /// The kind is not watched any more, in this version.
    fn forget(&self, kind: &KindName, served: &Served) {
        let mut others = served.watched().map(kind_name);
        if !others.any(|other| other.is_version_of(kind)) {
            self.change(|graph, work| graph.kind_gone(kind, work));
        }
    }

    async fn handle(self: Arc<Self>, task: Task) -> Result<Done, Error> {
        match task {
            Task::Check(uid) => self.check(uid).await,
            Task::Orphan(uid) => self.orphan(uid).await,
        }
    }

    /// Changes the graph, and sees to what follows.
    fn change<T>(&self, change: impl FnOnce(&mut Graph, &mut Vec<Work>) -> T) -> T {
        let mut work = Vec::new();
        let result = change(&mut self.graph(), &mut work);
        for work in work {
            match work {
                Work::Check(uid) => self.queue.add(Task::Check(uid)),
                Work::Orphan(uid) => self.queue.add_after(Task::Orphan(uid), ORPHAN_PAUSE),
                Work::Report(dependent, owner) => {
                    self.report(Report::Elsewhere(dependent, owner));
                }
            }
        }
        result
    }

    fn report(&self, report: Report) {
        if self.reports.try_send(report).is_err() {
            tracing::debug!("too many owners in other namespaces to tell of each");
        }
    }

    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.lock(&self.graph)
    }

    fn served(&self) -> Arc<Served> {
        self.lock(&self.served).clone()
    }

    fn lock<'a, T>(&self, shared: &'a Mutex<T>) -> MutexGuard<'a, T> {
        shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
