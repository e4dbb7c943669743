//! Which pods are in which selections, as both change.

use rhumb_meta::labels::Selector;

use super::Engine;
use super::selections::{Place, Selection};
use super::slots::{NamespaceId, PodId, PolicyId, SelectionId};
use super::spread::Spread;
use super::text::Text;
use super::touched::Turn;

/// Where the pods of a selection are, as it is read.
pub(super) enum Where<'a> {
    Namespace(&'a str),
    Selector(&'a Selector),
}

impl Engine {
    pub(super) fn hold_selection(
        &mut self,
        place: Where<'_>,
        pods: Selector,
        is_local: bool,
    ) -> SelectionId {
        let namespaces = &mut self.world.namespaces;
        let place = match place {
            Where::Namespace(name) => Place::Exactly(namespaces.hold(name, &mut self.texts)),
            Where::Selector(selector) => Place::Selected(namespaces.hold_selector(selector)),
        };
        let (id, is_new) = self.world.selections.hold(place, pods, is_local);
        if !is_new {
            self.release_place(place);
        }
        id
    }

    fn release_place(&mut self, place: Place) {
        match place {
            Place::Exactly(namespace) => self.world.namespaces.release(namespace),
            Place::Selected(selector) => self.world.namespaces.release_selector(selector),
        }
    }

    pub(super) fn release_selection(&mut self, id: SelectionId) {
        self.world.selections[id].holders -= 1;
        self.forget_unused(id);
    }

    /// Its members are needed once more.
    pub(super) fn use_selection(&mut self, id: SelectionId) {
        let selection = &mut self.world.selections[id];
        selection.users += 1;
        if !selection.is_followed {
            selection.is_followed = true;
            self.follow(id);
        }
    }

    /// On a node it is followed until the kernel has been told: whoever comes back in between finds it as it was.
    pub(super) fn disuse_selection(&mut self, id: SelectionId) {
        let selection = &mut self.world.selections[id];
        selection.users -= 1;
        if selection.users > 0 {
            return;
        }
        match self.node.name {
            Some(_) => self.node.idle.push(id),
            None => self.unfollow(id),
        }
    }

    /// Forgets what nobody has needed since the kernel was told.
    pub(super) fn forget_idle(&mut self) {
        for id in std::mem::take(&mut self.node.idle) {
            let selection = &self.world.selections[id];
            if selection.is_followed && selection.users == 0 {
                self.unfollow(id);
                self.forget_unused(id);
            }
        }
    }

    fn forget_unused(&mut self, id: SelectionId) {
        let selection = &self.world.selections[id];
        if selection.holders == 0 && !selection.is_followed {
            let selection = self.world.selections.remove(id);
            self.touched.forget(id);
            self.release_place(selection.key.place);
        }
    }

    fn follow(&mut self, id: SelectionId) {
        let selection = &self.world.selections[id];
        let (place, pods) = (selection.key.place, selection.pods.clone());
        let (world, texts) = (&mut self.world, &mut self.texts);
        if let Place::Selected(selector) = place {
            world.namespaces.use_selector(selector, texts);
        }
        world.selections.index.insert(place, &pods, id, texts);
        for pod in self.candidates(&self.world.selections[id]) {
            if self.is_picked(&self.world.selections[id], pod) {
                self.join(id, pod);
            }
        }
    }

    fn unfollow(&mut self, id: SelectionId) {
        let selection = &mut self.world.selections[id];
        selection.is_followed = false;
        selection.spread = None;
        let members = std::mem::take(&mut selection.members);
        let (place, pods) = (selection.key.place, selection.pods.clone());
        let index = &mut self.world.selections.index;
        index.remove(place, &pods, id, &mut self.texts);
        for pod in members.iter() {
            let selections = &mut self.world.pods[pod].selections;
            if let Ok(at) = selections.binary_search(&id) {
                selections.remove(at);
            }
        }
        if let Place::Selected(selector) = place {
            let namespaces = &mut self.world.namespaces;
            namespaces.disuse_selector(selector, &mut self.texts);
        }
    }

    /// A short list that has all pods that may be picked.
    fn candidates(&self, selection: &Selection) -> Vec<PodId> {
        let namespaces = &self.world.namespaces;
        let places: Vec<NamespaceId> = match selection.key.place {
            Place::Exactly(namespace) => vec![namespace],
            Place::Selected(selector) => {
                let picked = &namespaces.selector(selector).namespaces;
                picked.iter().copied().collect()
            }
        };
        let count = places.iter().map(|id| namespaces[*id].pods.len()).sum();
        if count == 0 {
            return Vec::new();
        }
        if selection.key.is_local && self.node.pods.len() < count {
            return self.node.pods.iter().copied().collect();
        }
        let postings = &self.world.pods.postings;
        let by_labels = postings.candidates(&selection.pods, &self.texts, count);
        by_labels.unwrap_or_else(|| {
            let pods = places.iter().flat_map(|id| namespaces[*id].pods.iter());
            pods.collect()
        })
    }

    fn is_picked(&self, selection: &Selection, pod: PodId) -> bool {
        let is_here = !selection.key.is_local || self.is_local(pod);
        is_here && self.world.picks(selection, pod)
    }

    /// Whether the pod is on the node that the engine is for.
    pub(super) fn is_local(&self, pod: PodId) -> bool {
        self.node.name.is_some() && self.world.pods[pod].facts.node == self.node.name
    }

    /// Brings the selections of a pod, which has changed or the namespace of which has, up to date.
    pub(super) fn select_again(&mut self, pod: PodId) {
        let now = self.selections_of(pod);
        let before = std::mem::take(&mut self.world.pods[pod].selections);
        for selection in &before {
            if now.binary_search(selection).is_err() {
                self.leave(*selection, pod);
            }
        }
        for selection in &now {
            if before.binary_search(selection).is_err() {
                self.enter(*selection, pod);
            }
        }
        self.world.pods[pod].selections = now;
    }

    /// Those that pick the pod by what is known of it now, in order.
    fn selections_of(&self, id: PodId) -> Vec<SelectionId> {
        let pod = &self.world.pods[id];
        if pod.facts.is_host_network {
            return Vec::new();
        }
        let selectors = &self.world.namespaces[pod.namespace].selectors;
        let selected = selectors.iter().map(|selector| Place::Selected(*selector));
        let places = std::iter::once(Place::Exactly(pod.namespace)).chain(selected);
        let selections = &self.world.selections;
        let labels = &pod.facts.labels;
        let candidates = places.flat_map(|place| selections.index.candidates(place, labels));
        // They are those of the pod's places. What is read of them costs more than all else: so it is read only if needed.
        let is_everywhere = self.node.name.is_none() || self.is_local(id);
        let picking = candidates.filter(|candidate| {
            let selection = || &selections[candidate.id];
            let is_here = is_everywhere || !selection().key.is_local;
            is_here && (candidate.is_certain || selection().pods.matches(&**labels))
        });
        let mut picked: Vec<SelectionId> = picking.map(|candidate| candidate.id).collect();
        picked.sort_unstable();
        picked
    }

    fn join(&mut self, selection: SelectionId, pod: PodId) {
        let selections = &mut self.world.pods[pod].selections;
        if let Err(at) = selections.binary_search(&selection) {
            selections.insert(at, selection);
        }
        self.enter(selection, pod);
    }

    fn enter(&mut self, selection: SelectionId, pod: PodId) {
        let entered = &mut self.world.selections[selection];
        entered.members.insert(pod);
        let node = &self.world.pods[pod].facts.node;
        let spread = entered.spread.as_mut();
        let turn = Turn {
            of_members: entered.members.len() == 1,
            of_nodes: spread.is_some_and(|spread| spread.add(node)),
        };
        self.note_member(selection, pod, turn);
    }

    /// The pod itself has to be told by who calls.
    pub(super) fn leave(&mut self, selection: SelectionId, pod: PodId) {
        let left = &mut self.world.selections[selection];
        left.members.remove(pod);
        let node = &self.world.pods[pod].facts.node;
        let spread = left.spread.as_mut();
        let turn = Turn {
            of_members: left.members.is_empty(),
            of_nodes: spread.is_some_and(|spread| spread.take(node)),
        };
        self.note_member(selection, pod, turn);
    }

    /// Its members are counted from now on.
    pub(super) fn count(&mut self, id: SelectionId) {
        let selection = &mut self.world.selections[id];
        if selection.spread.is_none() {
            let mut spread = Spread::default();
            for pod in selection.members.iter() {
                spread.add(&self.world.pods[pod].facts.node);
            }
            selection.spread = Some(spread);
        }
    }

    /// The pod is on another node from now on.
    pub(super) fn count_elsewhere(&mut self, pod: PodId, node: &Option<Text>) {
        let pod = &self.world.pods[pod];
        for selection in &pod.selections {
            let Some(spread) = &mut self.world.selections[*selection].spread else {
                continue;
            };
            let (was_last, is_first) = (spread.take(&pod.facts.node), spread.add(node));
            if self.node.name.is_none() {
                let turn = Turn {
                    of_members: false,
                    of_nodes: was_last || is_first,
                };
                self.touched.note_members(*selection, turn);
            }
        }
    }

    /// A pod has joined or left.
    fn note_member(&mut self, id: SelectionId, pod: PodId, turn: Turn) {
        let selection = &self.world.selections[id];
        if self.node.name.is_none() {
            self.touched.note_members(id, turn);
            return;
        }
        let addresses = &self.world.pods[pod].facts.addresses;
        self.node.note_elements(id, addresses);
        if selection.key.is_local {
            self.node.stale.addresses.extend(addresses);
        }
        if turn.of_members {
            self.node
                .stale
                .activity
                .extend(selection.targeted_by.iter());
        }
    }

    /// The policy needs to know who its peers are from now on, or no more.
    pub(super) fn settle(&mut self, id: PolicyId) {
        let policy = &self.world.policies[id];
        let meaning = &policy.meaning;
        let has_targets = !self.world.selections[meaning.target].members.is_empty();
        let is_active = match self.node.name {
            Some(_) => meaning.is_understood && has_targets,
            None => true,
        };
        if is_active == policy.is_active {
            return;
        }
        let needs: Vec<SelectionId> = meaning.needs().collect();
        for selection in needs {
            if is_active {
                self.use_selection(selection);
            } else {
                self.disuse_selection(selection);
            }
        }
        self.world.policies[id].is_active = is_active;
    }

    /// Does so for all policies of which the pods have come or gone. Called at the end of each change.
    pub(super) fn settle_all(&mut self) {
        for policy in std::mem::take(&mut self.node.stale.activity) {
            let name = self.world.policies[policy].name.clone();
            self.node.stale.policies.insert(name);
            self.settle(policy);
        }
    }
}
