//! What happens to a cluster, one event after the other.

use std::collections::BTreeMap;
use std::fmt::Write;

use rhumb_netpol::{Engine, Knowledge, Name, Scope};
use serde_json::{Value, json};

#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) knowledge: Knowledge,
    pub(crate) events: Vec<Event>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// An object is new, or is like this now.
    Set(Value),
    Remove(Kind, Name),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Namespace,
    Pod,
    Policy,
}

/// All objects as they are written; namespaces are named like pods, in a namespace without a name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct World {
    pub(crate) namespaces: BTreeMap<Name, Value>,
    pub(crate) pods: BTreeMap<Name, Value>,
    pub(crate) policies: BTreeMap<Name, Value>,
}

impl World {
    pub(crate) fn of(events: &[Event]) -> World {
        let mut world = World::default();
        for event in events {
            world.apply(event);
        }
        world
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::Set(object) => {
                let objects = self.objects_mut(kind_of(object));
                objects.insert(name_of(object), object.clone());
            }
            Event::Remove(kind, name) => {
                self.objects_mut(*kind).remove(name);
            }
        }
    }

    fn objects_mut(&mut self, kind: Kind) -> &mut BTreeMap<Name, Value> {
        match kind {
            Kind::Namespace => &mut self.namespaces,
            Kind::Pod => &mut self.pods,
            Kind::Policy => &mut self.policies,
        }
    }

    pub(crate) fn get(&self, kind: Kind, name: &Name) -> Option<&Value> {
        let objects = match kind {
            Kind::Namespace => &self.namespaces,
            Kind::Pod => &self.pods,
            Kind::Policy => &self.policies,
        };
        objects.get(name)
    }

    /// Everything there is.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Value> {
        let namespaces = self.namespaces.values();
        namespaces
            .chain(self.pods.values())
            .chain(self.policies.values())
    }
}

pub(crate) fn kind_of(object: &Value) -> Kind {
    match object["kind"].as_str() {
        Some("Namespace") => Kind::Namespace,
        Some("Pod") => Kind::Pod,
        _ => Kind::Policy,
    }
}

pub(crate) fn name_of(object: &Value) -> Name {
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    Name::new(text("namespace"), text("name"))
}

/// An engine to which all of this happened.
pub(crate) fn engine(scope: Scope, knowledge: &Knowledge, events: &[Event]) -> Engine {
    let mut engine = Engine::new(scope, knowledge.clone());
    for event in events {
        tell(&mut engine, event);
    }
    engine
}

pub(crate) fn tell(engine: &mut Engine, event: &Event) {
    match event {
        Event::Set(object) => set(engine, object),
        Event::Remove(Kind::Namespace, name) => engine.remove_namespace(&name.name),
        Event::Remove(Kind::Pod, name) => engine.remove_pod(name),
        Event::Remove(Kind::Policy, name) => engine.remove_policy(name),
    }
}

fn set(engine: &mut Engine, object: &Value) {
    let object = object.clone();
    let read = "an object that can be read";
    match kind_of(&object) {
        Kind::Namespace => engine.set_namespace(&serde_json::from_value(object).expect(read)),
        Kind::Pod => engine.set_pod(&serde_json::from_value(object).expect(read)),
        Kind::Policy => engine.set_policy(&serde_json::from_value(object).expect(read)),
    }
}

/// Lines of JSON: what is known, and each event.
pub(crate) fn lines(script: &Script) -> String {
    let Knowledge { versions, sctp } = &script.knowledge;
    let mut lines = json!({"knowledge": {"versions": versions, "sctp": sctp}}).to_string();
    for event in &script.events {
        let line = match event {
            Event::Set(object) => object.clone(),
            Event::Remove(kind, name) => json!({"removed": format!("{kind:?} {name}")}),
        };
        write!(lines, "\n{line}").expect("memory");
    }
    lines
}
