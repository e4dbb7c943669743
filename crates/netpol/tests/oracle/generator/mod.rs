//! Generates random clusters and event histories. Names, labels and addresses come from small sets, so that objects
//! interact.

mod pods;
mod policies;

use rhumb_netpol::{NamespacedName, PluginCapabilities};
use serde_json::{Value, json};

use crate::event_script::{
    EventScript, ObjectEvent, ObjectStore, ScriptObjectKind, kind_of, name_of,
};
use rhumb_seeded_rng::SeededRng;

const NAMESPACES: [&str; 3] = ["a", "b", "c"];
pub(crate) const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];
pub(crate) const VERSIONS: [&str; 6] = ["1.3", "1.8", "1.9", "1.11", "1.12", "1.21"];

/// Generates random objects with unique uids.
#[derive(Debug)]
pub(crate) struct RandomObjectGenerator<'d> {
    rng: &'d mut SeededRng,
    uids: usize,
}

/// A script that creates a random cluster.
pub(crate) fn random_cluster(rng: &mut SeededRng, pods: usize, policies: usize) -> EventScript {
    let mut generator = RandomObjectGenerator { rng, uids: 0 };
    let mut events = Vec::new();
    for name in NAMESPACES {
        if generator.rng.percent(80) {
            events.push(ObjectEvent::Set(generator.namespace(name)));
        }
    }
    for number in 0..pods {
        let namespace = generator.rng.weighted(&[(5, "a"), (3, "b"), (2, "c")]);
        let pod = generator.pod(&NamespacedName::new(namespace, format!("p{number}")));
        events.push(ObjectEvent::Set(pod));
    }
    for number in 0..policies {
        let namespace = generator.rng.weighted(&[(5, "a"), (3, "b"), (2, "c")]);
        let policy = generator.policy(&NamespacedName::new(namespace, format!("q{number}")));
        events.push(ObjectEvent::Set(policy));
    }
    rng.shuffle(&mut events);
    EventScript {
        capabilities: random_capabilities(rng),
        events,
    }
}

/// A script that creates a random cluster and then changes it.
pub(crate) fn random_history(rng: &mut SeededRng, length: usize) -> EventScript {
    let (pods, policies) = (rng.between(1, 4), rng.between(1, 3));
    let mut script = random_cluster(rng, pods, policies);
    let mut store = ObjectStore::of(&script.events);
    let mut generator = RandomObjectGenerator { rng, uids: 1000 };
    while script.events.len() < length {
        let events = match generator.rng.percent(3) {
            true => generator.namespace_deletion(&store),
            false => vec![generator.event(&store)],
        };
        events.iter().for_each(|event| store.apply(event));
        script.events.extend(events);
    }
    script
}

/// Usually all capabilities.
fn random_capabilities(rng: &mut SeededRng) -> PluginCapabilities {
    let limited = rng.percent(10);
    let known = VERSIONS.iter().filter(|_| !limited || rng.percent(80));
    PluginCapabilities {
        versions: known.map(ToString::to_string).collect(),
        sctp: rng.percent(90),
    }
}

impl RandomObjectGenerator<'_> {
    /// Deletes a namespace and all its objects, in random order.
    fn namespace_deletion(&mut self, store: &ObjectStore) -> Vec<ObjectEvent> {
        let deleted = *self.rng.pick(&NAMESPACES);
        let objects = store
            .objects()
            .map(|object| (kind_of(object), name_of(object)));
        let inside = objects.filter(|(_, name)| name.namespace == deleted);
        let mut events: Vec<ObjectEvent> = inside
            .map(|(kind, name)| ObjectEvent::Remove(kind, name))
            .collect();
        events.push(ObjectEvent::Remove(
            ScriptObjectKind::Namespace,
            NamespacedName::new("", deleted),
        ));
        self.rng.shuffle(&mut events);
        events
    }

    fn event(&mut self, store: &ObjectStore) -> ObjectEvent {
        let kind = self.rng.weighted(&[
            (60, ScriptObjectKind::Pod),
            (28, ScriptObjectKind::Policy),
            (12, ScriptObjectKind::Namespace),
        ]);
        match kind {
            ScriptObjectKind::Namespace => {
                let name = *self.rng.pick(&NAMESPACES);
                if self.rng.percent(20) {
                    return ObjectEvent::Remove(kind, NamespacedName::new("", name));
                }
                ObjectEvent::Set(self.namespace(name))
            }
            ScriptObjectKind::Pod => self.pod_event(store),
            ScriptObjectKind::Policy => {
                let name = self.name('q', 3);
                if self.rng.percent(20) {
                    return ObjectEvent::Remove(kind, name);
                }
                let known = store.get(kind, &name).cloned();
                ObjectEvent::Set(match known {
                    Some(policy) if self.rng.percent(60) => self.changed_policy(policy),
                    _ => self.policy(&name),
                })
            }
        }
    }

    fn pod_event(&mut self, store: &ObjectStore) -> ObjectEvent {
        let name = self.name('p', 4);
        if self.rng.percent(15) {
            return ObjectEvent::Remove(ScriptObjectKind::Pod, name);
        }
        let known = store.get(ScriptObjectKind::Pod, &name).cloned();
        ObjectEvent::Set(match known {
            Some(pod) if self.rng.percent(70) => self.changed_pod(pod),
            _ => self.pod(&name),
        })
    }

    fn name(&mut self, letter: char, count: usize) -> NamespacedName {
        let namespace = self.rng.weighted(&[(5, "a"), (3, "b"), (2, "c")]);
        NamespacedName::new(namespace, format!("{letter}{}", self.rng.below(count)))
    }

    fn uid(&mut self) -> String {
        self.uids += 1;
        format!("uid-{:04}", self.uids)
    }

    fn namespace(&mut self, name: &str) -> Value {
        let mut labels = json!({});
        if self.rng.percent(70) {
            labels["team"] = json!(self.rng.pick(&["red", "blue"]));
        }
        if self.rng.percent(15) {
            labels["app"] = json!(self.rng.pick(&["x", "y"]));
        }
        match self.rng.below(10) {
            0 => labels["kubernetes.io/metadata.name"] = json!(self.rng.pick(&NAMESPACES)),
            1 => labels = Value::Null,
            _ => {}
        }
        json!({"kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    }

    fn pod_labels(&mut self) -> Value {
        let mut labels = json!({});
        if self.rng.percent(90) {
            labels["app"] = json!(self.rng.pick(&["x", "x", "y", "z"]));
        }
        if self.rng.percent(50) {
            labels["tier"] = json!(self.rng.pick(&["front", "back"]));
        }
        if self.rng.percent(5) {
            return Value::Null;
        }
        labels
    }
}
