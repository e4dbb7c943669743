//! Changes that come from the server.

use std::collections::HashSet;
use std::time::Instant;

use super::events::may_help;
use super::{Change, Engine};
use crate::cluster::{Departed, NodeId, PickerId, PodChange, PodId};
use crate::model::{GroupKey, Labels, Node, Pod};
use crate::plugins::Event;
use crate::queue::Cause;

impl Engine {
    /// Takes note of what happened. Pods that it may help are tried again.
    pub fn apply(&mut self, change: Change, now: Instant) {
        match change {
            Change::Pod(pod) => self.set_pod(*pod, now),
            Change::PodGone { uid } => self.remove_pod(&uid, now),
            Change::PodsAre(uids) => self.keep_pods(&uids, now),
            Change::Node(node) => self.set_node(*node, now),
            Change::NodeGone { name } => self.remove_node(&name, now),
            Change::NodesAre(names) => self.keep_nodes(&names, now),
            Change::Namespace { name, labels } => self.set_namespace(&name, Some(labels), now),
            Change::NamespaceGone { name } => self.set_namespace(&name, None, now),
            Change::NamespacesAre(names) => self.keep_namespaces(&names, now),
            Change::Budget(budget) => {
                self.version += 1;
                self.budgets.set(*budget);
            }
            Change::BudgetGone { namespace, name } => {
                self.version += 1;
                self.budgets.remove(&namespace, &name);
            }
            Change::BudgetsAre(keys) => {
                self.version += 1;
                self.budgets.retain(&keys);
            }
            Change::Group(group) => {
                let namespace = group.key.namespace.clone();
                if self.cluster.set_group(*group) {
                    self.happened(
                        &Event::GroupChanged {
                            namespace: &namespace,
                        },
                        now,
                    );
                }
            }
            Change::GroupGone(key) => self.remove_group(&key, now),
            Change::GroupsAre { kind, keys } => {
                let known = self.cluster.groups(kind).into_iter();
                for gone in known.filter(|key| !keys.contains(key)) {
                    self.remove_group(&gone, now);
                }
            }
            Change::Hold(uids) => self.hold(uids, now),
            Change::Release { uid } => self.release(&uid, now),
            Change::Bound { uid } => self.bound(&uid, now),
            Change::NotBound { uid } => self.not_bound(&uid, None, now),
            Change::BindingRefused { uid, problem } => self.not_bound(&uid, Some(problem), now),
            Change::NotEvicted { uid } => self.not_evicted(&uid, now),
        }
    }
}

/// Pods.
impl Engine {
    fn set_pod(&mut self, mut pod: Pod, now: Instant) {
        if !self.namespace_selectors {
            pod.forget_namespace_selectors();
        }
        match self.cluster.set_pod(pod) {
            PodChange::Added(id) => match self.place(id) {
                Some(_) => {
                    self.is_ranked_now(id, None);
                    self.happened(&Event::PodPlaced(id), now);
                }
                None => self.welcome(id, None, now),
            },
            PodChange::Changed {
                id,
                before,
                place_before,
                picked_by_before,
            } => self.changed(id, &before, place_before, picked_by_before, now),
            PodChange::Unchanged(id) => self.is_bound(id, now),
            PodChange::Gone(Some(departed)) => self.left(&departed, now),
            PodChange::Gone(None) => {}
        }
    }

    fn changed(
        &mut self,
        id: PodId,
        before: &Pod,
        place_before: Option<NodeId>,
        picked_by_before: Vec<PickerId>,
        now: Instant,
    ) {
        let place = self.place(id);
        self.is_ranked_now(id, place_before.map(|place| (place, before.priority)));
        match (place_before, place) {
            (None, None) => self.welcome(id, Some(before), now),
            (None, Some(_)) => {
                self.is_bound(id, now);
                self.happened(&Event::PodPlaced(id), now);
            }
            (Some(from), Some(to)) if from == to => {
                self.is_bound(id, now);
                let event = Event::PodChanged {
                    pod: id,
                    before,
                    picked_by_before: &picked_by_before,
                };
                self.happened(&event, now);
            }
            (Some(from), _) => {
                let departed = Departed {
                    id,
                    facts: std::sync::Arc::new(before.clone()),
                    place: Some(from),
                    picked_by: picked_by_before,
                };
                self.happened(&Event::PodLeft(&departed), now);
                match place {
                    Some(_) => {
                        self.is_bound(id, now);
                        self.happened(&Event::PodPlaced(id), now);
                    }
                    None => self.welcome(id, None, now),
                }
            }
        }
    }

    /// A pod that has no place: it waits for one, if that is ours to find.
    fn welcome(&mut self, id: PodId, before: Option<&Pod>, now: Instant) {
        let Some(facts) = self.facts(id) else { return };
        let profile = self.by_name.get(&facts.scheduler_name).copied();
        let (Some(profile), false) = (profile, facts.is_terminating) else {
            self.leave_queue(id, now);
            return;
        };
        let is_held = self.is_held(&facts);
        match before {
            Some(before) if self.queue.contains(id) => {
                let (profiles, cluster) = (&self.profiles, &self.cluster);
                let event = Event::Itself { before };
                self.queue.update(id, &facts, is_held, now, |refusers| {
                    may_help(profiles, cluster, &event, id, profile, refusers)
                });
            }
            _ => {
                self.queue.add(id, &facts, profile, is_held, now);
                self.note_namespace(&facts, now);
            }
        }
        self.follow_nomination(id, before, now);
    }

    fn remove_pod(&mut self, uid: &str, now: Instant) {
        if let Some(departed) = self.cluster.remove_pod(uid) {
            self.left(&departed, now);
        }
    }

    fn left(&mut self, departed: &Departed, now: Instant) {
        // Before anything else: the number of the pod can be another's soon.
        self.queue.remove(departed.id, now);
        self.told.forget(departed.id);
        self.freed_by(departed, now);
        if let Some(place) = departed.place {
            self.ranks.take(place, departed.facts.priority);
            self.happened(&Event::PodLeft(departed), now);
        }
    }

    fn keep_pods(&mut self, uids: &HashSet<Box<str>>, now: Instant) {
        let pods = self.cluster.pods().iter();
        let gone: Vec<Box<str>> = pods
            .map(|(_, slot)| &slot.facts.uid)
            .filter(|uid| !uids.contains(*uid))
            .cloned()
            .collect();
        for uid in gone {
            self.remove_pod(&uid, now);
        }
    }

    /// Counts a pod where it is and as important as it is, and no longer where and as it was.
    pub(super) fn is_ranked_now(&mut self, id: PodId, before: Option<(NodeId, i32)>) {
        if let Some((place, priority)) = before {
            self.ranks.take(place, priority);
        }
        let slot = self.cluster.pods().get(id);
        if let Some((place, priority)) =
            slot.and_then(|slot| Some((slot.place()?, slot.facts.priority)))
        {
            self.ranks.put(place, priority);
        }
    }

    fn place(&self, id: PodId) -> Option<NodeId> {
        self.cluster.pods().get(id)?.place()
    }
}

/// What became of decisions.
impl Engine {
    fn bound(&mut self, uid: &str, now: Instant) {
        if let Some(id) = self.cluster.pods().find(uid)
            && self.place(id).is_some()
        {
            self.leave_queue(id, now);
        }
    }

    /// Whether the server says so too: a pod that is only assumed to be somewhere may still come back.
    fn is_bound(&mut self, id: PodId, now: Instant) {
        let slot = self.cluster.pods().get(id);
        if slot.is_some_and(|slot| slot.facts.node_name.is_some()) {
            self.leave_queue(id, now);
        }
    }

    fn leave_queue(&mut self, id: PodId, now: Instant) {
        self.queue.remove(id, now);
        self.told.forget(id);
        self.settled(id, now);
    }

    fn not_bound(&mut self, uid: &str, problem: Option<String>, now: Instant) {
        let Some(id) = self.cluster.pods().find(uid) else {
            return;
        };
        let Some(slot) = self.cluster.pods().get(id) else {
            return;
        };
        if !slot.is_assumed() {
            return;
        }
        let departed = Departed {
            id,
            facts: slot.facts.clone(),
            place: slot.place(),
            picked_by: slot.picked_by().to_vec(),
        };
        self.cluster.forget(id);
        let before = departed.place.map(|place| (place, departed.facts.priority));
        self.is_ranked_now(id, before);
        if departed.facts.is_terminating {
            self.leave_queue(id, now);
        } else if self.queue.contains(id) {
            self.queue.came_back(id, &departed.facts, now);
            self.keeps_nothing(id, &departed.facts, problem, now);
        } else {
            self.welcome(id, None, now);
        }
        self.happened(&Event::PodLeft(&departed), now);
    }

    fn not_evicted(&mut self, uid: &str, now: Instant) {
        let Some(id) = self.cluster.pods().find(uid) else {
            return;
        };
        if let Some(nomination) = self.nominations.get_mut(id) {
            nomination.victims.clear();
        }
        self.version += 1;
        if self.queue.is_asleep(id) {
            self.queue.failed(id, now);
        }
    }
}

/// Groups, nodes and namespaces.
impl Engine {
    fn remove_group(&mut self, key: &GroupKey, now: Instant) {
        if self.cluster.remove_group(key) {
            let namespace = &key.namespace;
            self.happened(&Event::GroupChanged { namespace }, now);
        }
    }

    fn set_node(&mut self, node: Node, now: Instant) {
        let (id, before) = self.cluster.set_node(node);
        match before {
            None => self.happened(&Event::NodeAdded(id), now),
            Some(before) if self.cluster.nodes().facts(id) == Some(&before) => {}
            Some(before) => {
                let event = Event::NodeChanged {
                    node: id,
                    before: &before,
                };
                self.happened(&event, now);
            }
        }
    }

    fn remove_node(&mut self, name: &str, now: Instant) {
        let Some(before) = self.cluster.remove_node(name) else {
            return;
        };
        self.happened(&Event::NodeLeft { before: &before }, now);
        // Whoever waits for a place there has to look for another.
        for pod in self.nominations.on(name).to_vec() {
            self.queue.wake_one(Cause::NodeLeft, pod, now);
        }
    }

    fn keep_nodes(&mut self, names: &HashSet<Box<str>>, now: Instant) {
        let nodes = self.cluster.nodes().iter();
        let gone: Vec<Box<str>> = nodes
            .filter(|(_, slot)| slot.facts().is_some() && !names.contains(&slot.name))
            .map(|(_, slot)| slot.name.clone())
            .collect();
        for name in gone {
            self.remove_node(&name, now);
        }
    }

    fn set_namespace(&mut self, name: &str, labels: Option<Labels>, now: Instant) {
        let is_new = labels.is_some() && !self.cluster.has_namespace(name);
        let pickers = match labels {
            Some(labels) => self.cluster.set_namespace(name, labels),
            None => self.cluster.remove_namespace(name),
        };
        if !pickers.is_empty() {
            let event = Event::NamespaceRelabelled {
                namespace: name,
                pickers: &pickers,
            };
            self.happened(&event, now);
        }
        if is_new {
            self.release_namespace(name, now);
        }
    }

    fn keep_namespaces(&mut self, names: &HashSet<Box<str>>, now: Instant) {
        let known = self.cluster.namespace_names();
        let gone: Vec<Box<str>> = known
            .filter(|name| !names.contains(*name))
            .map(Box::from)
            .collect();
        for name in gone {
            self.set_namespace(&name, None, now);
        }
        self.knows_namespaces(now);
    }
}
