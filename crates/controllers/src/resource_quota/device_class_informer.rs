//! Watches DeviceClasses, once for all namespaces, as long as a quota counts extended resources that classes name.

use std::sync::Arc;

use k8s_openapi::api::resource::v1::DeviceClass;
use kube::api::ObjectMeta;
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt};
use rhumb_client::informer::{self, Event};
use rhumb_quota::DeviceClassMapping;
use serde::Deserialize;
use tokio::sync::{Notify, watch};

use crate::Error;

/// Receives the extended resources of device classes; `None` until the classes have been listed.
pub(super) type DeviceClassReceiver = watch::Receiver<Option<Arc<DeviceClassMapping>>>;

/// Publishes the extended resources of device classes to its subscribers.
#[derive(Debug, Default)]
pub(super) struct DeviceClassInformer {
    mapping: watch::Sender<Option<Arc<DeviceClassMapping>>>,
    subscribed: Notify,
}

impl DeviceClassInformer {
    /// Starts the watch unless it is running. The current mapping counts as a change for the receiver.
    pub(super) fn subscribe(&self) -> DeviceClassReceiver {
        let mut receiver = self.mapping.subscribe();
        receiver.mark_changed();
        self.subscribed.notify_one();
        receiver
    }

    /// Watches DeviceClasses whenever there are subscribers.
    pub(super) async fn run(&self, reader: Client) -> Result<(), Error> {
        loop {
            self.subscribed.notified().await;
            tokio::select! {
                watched = self.watch_classes(reader.clone()) => return watched,
                () = self.mapping.closed() => drop(self.mapping.send_replace(None)),
            }
        }
    }

    async fn watch_classes(&self, reader: Client) -> Result<(), Error> {
        let classes: Api<PartialDeviceClass> = Api::all(reader);
        let mut mapping = DeviceClassMapping::default();
        let mut is_listed = false;
        let on_event = |event: Event<PartialDeviceClass, String>| {
            match event {
                Event::Applied(class) => apply(&mut mapping, &class),
                Event::Deleted(name) => mapping.set(&name, None),
                Event::Replaced(names) => {
                    mapping.retain(|name| names.contains(name));
                    is_listed = true;
                }
            }
            if is_listed {
                self.publish(&mapping);
            }
        };
        informer::watch(classes, Config::default(), ResourceExt::name_any, on_event).await
    }

    fn publish(&self, mapping: &DeviceClassMapping) {
        self.mapping.send_if_modified(|current| {
            let is_changed = current.as_deref() != Some(mapping);
            if is_changed {
                *current = Some(Arc::new(mapping.clone()));
            }
            is_changed
        });
    }
}

fn apply(mapping: &mut DeviceClassMapping, class: &PartialDeviceClass) {
    let extended_resource = class.spec.extended_resource_name.as_deref();
    mapping.set(&class.name_any(), extended_resource);
}

/// A DeviceClass with only its name and its extended resource.
#[derive(Debug, Clone, Deserialize)]
struct PartialDeviceClass {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: PartialDeviceClassSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartialDeviceClassSpec {
    #[serde(default)]
    extended_resource_name: Option<String>,
}

rhumb_client::view!(PartialDeviceClass, of DeviceClass);
