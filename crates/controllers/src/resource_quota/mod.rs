//! Resource quota controller (upstream: `resourcequota`): writes `status.hard` and `status.used` of ResourceQuotas.
//!
//! Each namespace with quotas has a worker (`namespace_worker.rs`) that watches what the quotas count there. Device
//! classes are watched once for all of them (`device_class_informer.rs`). Quotas are enforced by the API server, which
//! does not read the status.

mod device_class_informer;
mod foreign_writes;
mod namespace_worker;
#[cfg(test)]
mod tests;
mod tracked_usage;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::pin::pin;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Api;
use kube::runtime::watcher::Config;
use rhumb_client::informer::{self, Event};
use tokio::sync::watch;

use self::device_class_informer::DeviceClassInformer;
use crate::namespaced_name::{NamespacedName, namespaced_name};
use crate::{ControllerContext, Error};

/// The quotas of a namespace, by name.
type Quotas = BTreeMap<String, ResourceQuota>;

pub(crate) async fn run(context: ControllerContext) -> Result<(), Error> {
    let quotas: Api<ResourceQuota> = Api::all(context.reader.clone());
    let mut events = pin!(informer::events(quotas, Config::default(), namespaced_name));
    let device_classes = Arc::new(DeviceClassInformer::default());
    let mut device_class_watch = pin!(device_classes.run(context.reader.clone()));
    let mut namespaces = Namespaces::default();
    let mut workers = FuturesUnordered::new();
    loop {
        tokio::select! {
            event = events.next() => {
                let Some(event) = event else { return Ok(()) };
                if let Some((namespace, quotas)) = namespaces.handle_event(event) {
                    workers.push(namespace_worker::run(
                        context.client.clone(),
                        context.reader.clone(),
                        namespace,
                        quotas,
                        device_classes.clone(),
                    ));
                }
            }
            watched = &mut device_class_watch => return watched,
            // A worker ends once its namespace has no quotas.
            Some(()) = workers.next() => {}
        }
    }
}

/// The namespaces with quotas. The worker of a namespace ends when its sender is dropped.
#[derive(Default)]
struct Namespaces {
    quotas: BTreeMap<String, watch::Sender<Quotas>>,
}

impl Namespaces {
    /// Returns the namespaces that need a new worker.
    fn handle_event(
        &mut self,
        event: Event<ResourceQuota, NamespacedName>,
    ) -> Option<(String, watch::Receiver<Quotas>)> {
        match event {
            Event::Applied(quota) => return self.apply(quota),
            Event::Deleted((namespace, name)) => self.retain(&namespace, |own| *own != name),
            Event::Replaced(keys) => {
                let namespaces: Vec<String> = self.quotas.keys().cloned().collect();
                for namespace in namespaces {
                    self.retain(&namespace, |name| {
                        keys.contains(&(namespace.clone(), name.to_owned()))
                    });
                }
            }
        }
        None
    }

    fn apply(&mut self, quota: ResourceQuota) -> Option<(String, watch::Receiver<Quotas>)> {
        let (namespace, name) = namespaced_name(&quota);
        match self.quotas.entry(namespace) {
            Entry::Occupied(known) => {
                known
                    .get()
                    .send_modify(|quotas| drop(quotas.insert(name, quota)));
                None
            }
            Entry::Vacant(new) => {
                let namespace = new.key().clone();
                let (sender, receiver) = watch::channel(Quotas::from([(name, quota)]));
                new.insert(sender);
                Some((namespace, receiver))
            }
        }
    }

    /// Removes the quotas of a namespace whose names `keep` rejects.
    fn retain(&mut self, namespace: &str, keep: impl Fn(&str) -> bool) {
        let Some(sender) = self.quotas.get(namespace) else {
            return;
        };
        sender.send_if_modified(|quotas| {
            let before = quotas.len();
            quotas.retain(|name, _| keep(name));
            quotas.len() != before
        });
        if sender.borrow().is_empty() {
            self.quotas.remove(namespace);
        }
    }
}
