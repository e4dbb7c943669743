//! Scripts of object events, and the objects that result from them. Also used by the agent's kernel tests.

use std::collections::BTreeMap;
use std::fmt::Write;

use rhumb_netpol::{EngineScope, NamespacedName, PluginCapabilities, PolicyEngine};
use serde_json::{Value, json};

/// The capabilities of an engine, and the events that it receives.
#[derive(Debug, Clone)]
pub(crate) struct EventScript {
    pub(crate) capabilities: PluginCapabilities,
    pub(crate) events: Vec<ObjectEvent>,
}

/// A change of one object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ObjectEvent {
    /// An object was added or updated.
    Set(Value),
    Remove(ScriptObjectKind, NamespacedName),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScriptObjectKind {
    Namespace,
    Pod,
    Policy,
}

/// All existing objects as JSON. Namespaces are stored with an empty namespace in their name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ObjectStore {
    pub(crate) namespaces: BTreeMap<NamespacedName, Value>,
    pub(crate) pods: BTreeMap<NamespacedName, Value>,
    pub(crate) policies: BTreeMap<NamespacedName, Value>,
}

impl ObjectStore {
    pub(crate) fn of(events: &[ObjectEvent]) -> ObjectStore {
        let mut store = ObjectStore::default();
        for event in events {
            store.apply(event);
        }
        store
    }

    pub(crate) fn apply(&mut self, event: &ObjectEvent) {
        match event {
            ObjectEvent::Set(object) => {
                let objects = self.objects_mut(kind_of(object));
                objects.insert(name_of(object), object.clone());
            }
            ObjectEvent::Remove(kind, name) => {
                self.objects_mut(*kind).remove(name);
            }
        }
    }

    fn objects_mut(&mut self, kind: ScriptObjectKind) -> &mut BTreeMap<NamespacedName, Value> {
        match kind {
            ScriptObjectKind::Namespace => &mut self.namespaces,
            ScriptObjectKind::Pod => &mut self.pods,
            ScriptObjectKind::Policy => &mut self.policies,
        }
    }

    pub(crate) fn get(&self, kind: ScriptObjectKind, name: &NamespacedName) -> Option<&Value> {
        let objects = match kind {
            ScriptObjectKind::Namespace => &self.namespaces,
            ScriptObjectKind::Pod => &self.pods,
            ScriptObjectKind::Policy => &self.policies,
        };
        objects.get(name)
    }

    /// All objects.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Value> {
        let namespaces = self.namespaces.values();
        namespaces
            .chain(self.pods.values())
            .chain(self.policies.values())
    }
}

pub(crate) fn kind_of(object: &Value) -> ScriptObjectKind {
    match object["kind"].as_str() {
        Some("Namespace") => ScriptObjectKind::Namespace,
        Some("Pod") => ScriptObjectKind::Pod,
        _ => ScriptObjectKind::Policy,
    }
}

pub(crate) fn name_of(object: &Value) -> NamespacedName {
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    NamespacedName::new(text("namespace"), text("name"))
}

/// An engine that has received all events.
pub(crate) fn engine_after_events(
    scope: EngineScope,
    capabilities: &PluginCapabilities,
    events: &[ObjectEvent],
) -> PolicyEngine {
    let mut engine = PolicyEngine::new(scope, capabilities.clone());
    for event in events {
        apply_event(&mut engine, event);
    }
    engine
}

pub(crate) fn apply_event(engine: &mut PolicyEngine, event: &ObjectEvent) {
    match event {
        ObjectEvent::Set(object) => set(engine, object),
        ObjectEvent::Remove(ScriptObjectKind::Namespace, name) => {
            engine.remove_namespace(&name.name);
        }
        ObjectEvent::Remove(ScriptObjectKind::Pod, name) => engine.remove_pod(name),
        ObjectEvent::Remove(ScriptObjectKind::Policy, name) => engine.remove_policy(name),
    }
}

fn set(engine: &mut PolicyEngine, object: &Value) {
    let object = object.clone();
    let read = "valid object";
    match kind_of(&object) {
        ScriptObjectKind::Namespace => {
            engine.set_namespace(&serde_json::from_value(object).expect(read));
        }
        ScriptObjectKind::Pod => {
            engine.set_pod(&serde_json::from_value(object).expect(read));
        }
        ScriptObjectKind::Policy => engine.set_policy(&serde_json::from_value(object).expect(read)),
    }
}

/// The script as lines of JSON: the capabilities, then each event.
pub(crate) fn to_json_lines(script: &EventScript) -> String {
    let PluginCapabilities { versions, sctp } = &script.capabilities;
    let mut lines = json!({"knowledge": {"versions": versions, "sctp": sctp}}).to_string();
    for event in &script.events {
        let line = match event {
            ObjectEvent::Set(object) => object.clone(),
            ObjectEvent::Remove(kind, name) => json!({"removed": format!("{kind:?} {name}")}),
        };
        write!(lines, "\n{line}").expect("writing to a String");
    }
    lines
}
