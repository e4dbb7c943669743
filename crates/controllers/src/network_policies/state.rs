//! What is known of the cluster, and which policies are to be looked at because of a change. Pure: time is an argument.

mod look;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::mem::take;
use std::time::Duration;

use kube::api::ObjectMeta;
use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt};
use rhumb_netpol::report::NetworkPolicyNode;
use rhumb_netpol::{Engine, Features, Knowledge, Name, Namespace, NetworkPolicy, Pod, Scope};
use tokio::time::Instant;

use super::agents::{Agents, Change, Stray};
use super::node::Node;
use super::standing::Standing;
pub(super) use look::Look;

/// What is to be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    Policy(Name),
    /// All policies.
    Policies,
    /// The report of a node that is not there.
    Stray(String),
}

/// What is to be looked at, and when.
pub(super) type Due = Vec<(Key, Duration)>;

/// The kinds that are listed before anything is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Reports,
    Nodes,
    Policies,
    Namespaces,
    Pods,
}

/// What is remembered of a policy beside what the engine knows.
#[derive(Debug)]
struct Known {
    uid: String,
    generation: Option<i64>,
    /// When this generation was first seen.
    since: Instant,
    /// The resourceVersion that `standing` is of.
    version: String,
    standing: Standing,
    features: Features,
    /// No look before then.
    rests_until: Option<Instant>,
}

pub(super) struct State {
    engine: Engine,
    agents: Agents,
    policies: HashMap<Name, Known>,
    /// Of `policies`, by uid: reports name them by it.
    names: HashMap<String, Name>,
    /// Kinds that have never been listed to the end.
    unread: BTreeSet<Kind>,
    /// What lists that are being read have not shown yet.
    unlisted: Unlisted,
    /// When all policies were last looked at.
    swept: Option<Instant>,
    /// Those of which the server did not keep what was written.
    ignored: HashSet<Name>,
    /// How long a node may be unknown before its report goes.
    quarantine: Duration,
}

#[derive(Default)]
struct Unlisted {
    reports: BTreeSet<String>,
    nodes: BTreeSet<String>,
    policies: HashSet<Name>,
    namespaces: HashSet<String>,
    pods: HashSet<Name>,
}

fn name(object: &impl Resource) -> Name {
    let meta: &ObjectMeta = object.meta();
    Name {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
    }
}

fn now(keys: impl IntoIterator<Item = Key>) -> Due {
    let keys = keys.into_iter();
    keys.map(|key| (key, Duration::ZERO)).collect()
}

impl State {
    pub(super) fn new(quarantine: Duration) -> State {
        let kinds = [
            Kind::Reports,
            Kind::Nodes,
            Kind::Policies,
            Kind::Namespaces,
            Kind::Pods,
        ];
        State {
            engine: Engine::new(Scope::Cluster, Knowledge::all()),
            agents: Agents::default(),
            policies: HashMap::new(),
            names: HashMap::new(),
            unread: kinds.into(),
            unlisted: Unlisted::default(),
            swept: None,
            ignored: HashSet::new(),
            quarantine,
        }
    }

    pub(super) fn note_pod(&mut self, event: Event<Pod>) -> Due {
        match event {
            Event::Apply(pod) => self.engine.set_pod(&pod),
            Event::InitApply(pod) => {
                self.unlisted.pods.remove(&name(&pod));
                self.engine.set_pod(&pod);
            }
            Event::Delete(pod) => self.engine.remove_pod(&name(&pod)),
            Event::Init => self.unlisted.pods = self.engine.pods().cloned().collect(),
            Event::InitDone => {
                for gone in take(&mut self.unlisted.pods) {
                    self.engine.remove_pod(&gone);
                }
                self.read(Kind::Pods);
            }
        }
        self.touched()
    }

    pub(super) fn note_namespace(&mut self, event: Event<Namespace>) -> Due {
        match event {
            Event::Apply(namespace) => self.engine.set_namespace(&namespace),
            Event::InitApply(namespace) => {
                self.unlisted.namespaces.remove(&namespace.name_any());
                self.engine.set_namespace(&namespace);
            }
            Event::Delete(namespace) => self.engine.remove_namespace(&namespace.name_any()),
            Event::Init => {
                let known = self.engine.namespaces();
                self.unlisted.namespaces = known.map(str::to_owned).collect();
            }
            Event::InitDone => {
                for gone in take(&mut self.unlisted.namespaces) {
                    self.engine.remove_namespace(&gone);
                }
                self.read(Kind::Namespaces);
            }
        }
        self.touched()
    }

    pub(super) fn note_policy(&mut self, event: Event<NetworkPolicy>, at: Instant) -> Due {
        let mut shown = None;
        match event {
            Event::Apply(policy) => shown = Some(self.set_policy(&policy, at)),
            Event::InitApply(policy) => {
                let name = self.set_policy(&policy, at);
                self.unlisted.policies.remove(&name);
                shown = Some(name);
            }
            Event::Delete(policy) => self.remove_policy(&name(&policy)),
            Event::Init => self.unlisted.policies = self.policies.keys().cloned().collect(),
            Event::InitDone => {
                for gone in take(&mut self.unlisted.policies) {
                    self.remove_policy(&gone);
                }
                self.read(Kind::Policies);
            }
        }
        let mut due = self.touched();
        // Somebody may have changed what it says without touching what it means.
        due.extend(now(shown.map(Key::Policy).filter(|_| self.is_ready())));
        due
    }

    fn set_policy(&mut self, policy: &NetworkPolicy, at: Instant) -> Name {
        let name = name(policy);
        let meta = &policy.metadata;
        let uid = meta.uid.clone().unwrap_or_default();
        let version = meta.resource_version.clone().unwrap_or_default();
        let standing = Standing::of(&policy.status);
        if let Some(known) = self.policies.get_mut(&name)
            && known.uid == uid
            && known.generation.is_some()
            && known.generation == meta.generation
        {
            known.version = version;
            known.standing = standing;
            return name;
        }
        self.engine.set_policy(policy);
        let known = Known {
            uid: uid.clone(),
            generation: meta.generation,
            since: at,
            version,
            standing,
            features: Features::of(&policy.spec),
            rests_until: None,
        };
        if let Some(old) = self.policies.insert(name.clone(), known)
            && let Some(known) = self.policies.get_mut(&name)
        {
            if old.uid == uid {
                known.rests_until = old.rests_until;
            } else {
                self.names.remove(&old.uid);
            }
        }
        self.names.insert(uid, name.clone());
        name
    }

    fn remove_policy(&mut self, name: &Name) {
        self.engine.remove_policy(name);
        self.ignored.remove(name);
        if let Some(known) = self.policies.remove(name) {
            self.names.remove(&known.uid);
        }
    }

    pub(super) fn note_node(&mut self, event: Event<Node>) -> Due {
        match event {
            Event::Apply(node) | Event::InitApply(node) => {
                let name = node.name_any();
                self.unlisted.nodes.remove(&name);
                let change = self.agents.set_node(name, node.boot());
                change.map_or_else(Due::new, |change| self.concerned(&change))
            }
            Event::Delete(node) => self.remove_node(&node.name_any()),
            Event::Init => {
                self.unlisted.nodes = self.agents.nodes().cloned().collect();
                Due::new()
            }
            Event::InitDone => {
                let gone = take(&mut self.unlisted.nodes).into_iter();
                let mut due: Due = gone.flat_map(|name| self.remove_node(&name)).collect();
                if self.read(Kind::Nodes) {
                    let reporting = self.agents.reporting();
                    let strays = reporting.filter(|node| !self.agents.has_node(node));
                    due.extend(strays.map(|node| (Key::Stray(node.clone()), self.quarantine)));
                }
                due.extend(self.touched());
                due
            }
        }
    }

    fn remove_node(&mut self, node: &str) -> Due {
        let change = self.agents.remove_node(node);
        let mut due = self.concerned(&change);
        if self.agents.stray(node).is_some() {
            due.push((Key::Stray(node.to_owned()), Duration::ZERO));
        }
        due
    }

    pub(super) fn note_report(&mut self, event: Event<NetworkPolicyNode>) -> Due {
        match event {
            Event::Apply(report) | Event::InitApply(report) => {
                let node = report.name_any();
                self.unlisted.reports.remove(&node);
                let change = self.agents.set_report(node.clone(), report);
                let mut due = self.concerned(&change);
                if !self.unread.contains(&Kind::Nodes) && !self.agents.has_node(&node) {
                    due.push((Key::Stray(node), self.quarantine));
                }
                due
            }
            Event::Delete(report) => {
                let change = self.agents.remove_report(&report.name_any());
                self.concerned(&change)
            }
            Event::Init => {
                self.unlisted.reports = self.agents.reporting().cloned().collect();
                Due::new()
            }
            Event::InitDone => {
                let mut due = Due::new();
                for gone in take(&mut self.unlisted.reports) {
                    let change = self.agents.remove_report(&gone);
                    due.extend(self.concerned(&change));
                }
                self.read(Kind::Reports);
                due.extend(self.touched());
                due
            }
        }
    }

    fn is_ready(&self) -> bool {
        self.unread.is_empty()
    }

    /// A list of the kind is complete. Tells whether it is the first.
    fn read(&mut self, kind: Kind) -> bool {
        self.unread.remove(&kind)
    }

    /// The policies that changes of pods, namespaces and policies touch; all of them once everything is listed.
    fn touched(&mut self) -> Due {
        if !self.is_ready() {
            return Due::new();
        }
        // What is said does not depend on how many pods of a node are selected.
        let touched = self.engine.take_touched_beyond_counts();
        if self.swept.is_none() {
            return now([Key::Policies]);
        }
        now(touched.into_iter().map(Key::Policy))
    }

    /// The policies that a change of a report is about.
    fn concerned(&self, change: &Change) -> Due {
        if !self.is_ready() {
            return Due::new();
        }
        let uids = change.uids.iter();
        let names = uids.filter_map(|uid| self.names.get(&**uid));
        let policies = names.cloned().map(Key::Policy);
        now(policies.chain(change.is_for_all.then_some(Key::Policies)))
    }

    pub(super) fn stray(&self, node: &str) -> Option<Stray> {
        self.agents.stray(node)
    }
}

#[cfg(test)]
mod tests;
