//! Keeps the members of pod selections up to date as pods, namespaces and policies change.

use rhumb_meta::labels::Selector;
use rhumb_selection::InternedString;

use super::PolicyEngine;
use super::changed_policies::MembershipTransition;
use super::ids::{NamespaceId, PodId, PolicyId, SelectionId};
use super::pod_counts_by_node::PodCountsByNode;
use super::pod_selections::{NamespaceScope, PodSelection};

/// The namespaces of a pod selection, as given by a policy.
pub(super) enum NamespaceScopeSpec<'a> {
    Namespace(&'a str),
    Selector(&'a Selector),
}

impl PolicyEngine {
    pub(super) fn acquire_selection(
        &mut self,
        scope: NamespaceScopeSpec<'_>,
        pods: Selector,
        is_local: bool,
    ) -> SelectionId {
        let namespaces = &mut self.cluster.namespaces;
        let scope = match scope {
            NamespaceScopeSpec::Namespace(name) => {
                NamespaceScope::Named(namespaces.acquire(name, &mut self.interner))
            }
            NamespaceScopeSpec::Selector(selector) => {
                NamespaceScope::Matching(namespaces.acquire_selector(selector))
            }
        };
        let (id, is_new) = self.cluster.selections.acquire(scope, pods, is_local);
        if !is_new {
            self.release_namespace_scope(scope);
        }
        id
    }

    fn release_namespace_scope(&mut self, scope: NamespaceScope) {
        match scope {
            NamespaceScope::Named(namespace) => self.cluster.namespaces.release(namespace),
            NamespaceScope::Matching(selector) => {
                self.cluster.namespaces.release_selector(selector);
            }
        }
    }

    pub(super) fn release_selection(&mut self, id: SelectionId) {
        self.cluster.selections[id].references -= 1;
        self.drop_if_unused(id);
    }

    /// Adds a user of the selection's members; the first one starts tracking them.
    pub(super) fn use_selection(&mut self, id: SelectionId) {
        let selection = &mut self.cluster.selections[id];
        selection.active_users += 1;
        if !selection.is_tracked {
            selection.is_tracked = true;
            self.start_tracking_members(id);
        }
    }

    /// Removes a user. With [`EngineScope::Node`](super::EngineScope::Node) the members are tracked until the next
    /// delta is taken, so that a policy that is deleted and re-created in between changes nothing.
    pub(super) fn stop_using_selection(&mut self, id: SelectionId) {
        let selection = &mut self.cluster.selections[id];
        selection.active_users -= 1;
        if selection.active_users > 0 {
            return;
        }
        match self.node_ruleset.name {
            Some(_) => self.node_ruleset.unused_selections.push(id),
            None => self.stop_tracking_members(id),
        }
    }

    /// Drops selections that have no users, after a delta has been taken.
    pub(super) fn drop_unused_selections(&mut self) {
        for id in std::mem::take(&mut self.node_ruleset.unused_selections) {
            // A selection that was unused, used and unused again is listed twice.
            let selection = self.cluster.selections.get(id);
            if selection.is_some_and(|it| it.is_tracked && it.active_users == 0) {
                self.stop_tracking_members(id);
                self.drop_if_unused(id);
            }
        }
    }

    fn drop_if_unused(&mut self, id: SelectionId) {
        let selection = &self.cluster.selections[id];
        if selection.references == 0 && !selection.is_tracked {
            let scope = selection.key.namespaces;
            self.cluster.selections.remove(id);
            self.changed_policies.forget_selection(id);
            self.release_namespace_scope(scope);
        }
    }

    fn start_tracking_members(&mut self, id: SelectionId) {
        let selection = &self.cluster.selections[id];
        let (scope, pods) = (selection.key.namespaces, selection.pods.clone());
        let (cluster, texts) = (&mut self.cluster, &mut self.interner);
        if let NamespaceScope::Matching(selector) = scope {
            cluster.namespaces.use_selector(selector, texts);
        }
        let index = &mut cluster.selections.index;
        index.insert_selector(&scope, &pods, id, texts);
        for pod in self.candidate_pods(&self.cluster.selections[id]) {
            if self.is_member(&self.cluster.selections[id], pod) {
                self.add_selection_to_pod(id, pod);
            }
        }
    }

    fn stop_tracking_members(&mut self, id: SelectionId) {
        let selection = &mut self.cluster.selections[id];
        selection.is_tracked = false;
        selection.pod_counts = None;
        let members = std::mem::take(&mut selection.members);
        let (scope, pods) = (selection.key.namespaces, selection.pods.clone());
        let index = &mut self.cluster.selections.index;
        index.remove_selector(&scope, &pods, id, &mut self.interner);
        for pod in members.iter() {
            let selections = &mut self.cluster.pods[pod].selections;
            if let Ok(at) = selections.binary_search(&id) {
                selections.remove(at);
            }
        }
        if let NamespaceScope::Matching(selector) = scope {
            let namespaces = &mut self.cluster.namespaces;
            namespaces.stop_using_selector(selector, &mut self.interner);
        }
    }

    /// A superset of the members, from the smallest available index.
    fn candidate_pods(&self, selection: &PodSelection) -> Vec<PodId> {
        let namespaces = &self.cluster.namespaces;
        let namespace_ids: Vec<NamespaceId> = match selection.key.namespaces {
            NamespaceScope::Named(namespace) => vec![namespace],
            NamespaceScope::Matching(selector) => {
                let matching_ids = &namespaces.selector(selector).namespaces;
                matching_ids.iter().copied().collect()
            }
        };
        let count = namespace_ids
            .iter()
            .map(|id| namespaces[*id].pods.len())
            .sum();
        if count == 0 {
            return Vec::new();
        }
        if selection.key.is_local && self.node_ruleset.pods.len() < count {
            return self.node_ruleset.pods.iter().copied().collect();
        }
        let postings = &self.cluster.pods.postings;
        let by_labels = postings.candidates(&selection.pods, &self.interner, count);
        by_labels.unwrap_or_else(|| {
            let pods = namespace_ids
                .iter()
                .flat_map(|id| namespaces[*id].pods.iter());
            pods.collect()
        })
    }

    fn is_member(&self, selection: &PodSelection, pod: PodId) -> bool {
        let is_in_scope = !selection.key.is_local || self.is_local(pod);
        is_in_scope && self.cluster.selection_matches(selection, pod)
    }

    /// Whether the pod is on the engine's node.
    pub(super) fn is_local(&self, pod: PodId) -> bool {
        self.node_ruleset.name.is_some()
            && self.cluster.pods[pod].attributes.node == self.node_ruleset.name
    }

    /// Updates the selections of a pod after the pod or its namespace changed.
    pub(super) fn update_pod_selections(&mut self, pod: PodId) {
        let now = self.matching_selections(pod);
        let before = std::mem::take(&mut self.cluster.pods[pod].selections);
        for selection in &before {
            if now.binary_search(selection).is_err() {
                self.remove_member(*selection, pod);
            }
        }
        for selection in &now {
            if before.binary_search(selection).is_err() {
                self.add_member(*selection, pod);
            }
        }
        self.cluster.pods[pod].selections = now;
    }

    /// The selections that match the pod's current attributes, sorted.
    fn matching_selections(&self, id: PodId) -> Vec<SelectionId> {
        let pod = &self.cluster.pods[id];
        if pod.attributes.is_host_network {
            return Vec::new();
        }
        let selectors = &self.cluster.namespaces[pod.namespace].selectors;
        let selected = selectors
            .iter()
            .map(|selector| NamespaceScope::Matching(*selector));
        let scopes = std::iter::once(NamespaceScope::Named(pod.namespace)).chain(selected);
        let selections = &self.cluster.selections;
        let labels = &pod.attributes.labels;
        let candidates =
            scopes.flat_map(|scope| selections.index.candidates_for_labels(scope, labels));
        // Candidates already match by namespace. Loading a selection is the dominant cost (cache misses), so it is only
        // done if the index alone cannot decide.
        let is_everywhere = self.node_ruleset.name.is_none() || self.is_local(id);
        let matching = candidates.filter(|candidate| {
            let selection = || &selections[candidate.id];
            let is_in_scope = is_everywhere || !selection().key.is_local;
            is_in_scope && (candidate.is_exact || selection().pods.matches(&**labels))
        });
        let mut matching_ids: Vec<SelectionId> = matching.map(|candidate| candidate.id).collect();
        matching_ids.sort_unstable();
        matching_ids
    }

    fn add_selection_to_pod(&mut self, selection: SelectionId, pod: PodId) {
        let selections = &mut self.cluster.pods[pod].selections;
        if let Err(at) = selections.binary_search(&selection) {
            selections.insert(at, selection);
        }
        self.add_member(selection, pod);
    }

    fn add_member(&mut self, selection: SelectionId, pod: PodId) {
        let selection_entry = &mut self.cluster.selections[selection];
        selection_entry.members.insert(pod);
        let node = &self.cluster.pods[pod].attributes.node;
        let pod_counts = selection_entry.pod_counts.as_mut();
        let transition = MembershipTransition {
            emptiness_changed: selection_entry.members.len() == 1,
            nodes_changed: pod_counts.is_some_and(|pod_counts| pod_counts.add(node)),
        };
        self.mark_member_changed(selection, pod, transition);
    }

    /// The caller updates the pod's own list of selections.
    pub(super) fn remove_member(&mut self, selection: SelectionId, pod: PodId) {
        let left = &mut self.cluster.selections[selection];
        left.members.remove(pod);
        let node = &self.cluster.pods[pod].attributes.node;
        let pod_counts = left.pod_counts.as_mut();
        let transition = MembershipTransition {
            emptiness_changed: left.members.is_empty(),
            nodes_changed: pod_counts.is_some_and(|pod_counts| pod_counts.remove(node)),
        };
        self.mark_member_changed(selection, pod, transition);
    }

    /// Starts counting the members per node.
    pub(super) fn count_members(&mut self, id: SelectionId) {
        let selection = &mut self.cluster.selections[id];
        if selection.pod_counts.is_none() {
            let mut pod_counts = PodCountsByNode::default();
            for pod in selection.members.iter() {
                pod_counts.add(&self.cluster.pods[pod].attributes.node);
            }
            selection.pod_counts = Some(pod_counts);
        }
    }

    /// Moves the pod's counts to another node.
    pub(super) fn move_member_counts(&mut self, pod: PodId, node: &Option<InternedString>) {
        let pod = &self.cluster.pods[pod];
        for selection in &pod.selections {
            let Some(pod_counts) = &mut self.cluster.selections[*selection].pod_counts else {
                continue;
            };
            let (was_last, is_first) = (
                pod_counts.remove(&pod.attributes.node),
                pod_counts.add(node),
            );
            if self.node_ruleset.name.is_none() {
                let transition = MembershipTransition {
                    emptiness_changed: false,
                    nodes_changed: was_last || is_first,
                };
                self.changed_policies.mark_members(*selection, transition);
            }
        }
    }

    /// Records that a pod was added to or removed from a selection.
    fn mark_member_changed(
        &mut self,
        id: SelectionId,
        pod: PodId,
        transition: MembershipTransition,
    ) {
        let selection = &self.cluster.selections[id];
        if self.node_ruleset.name.is_none() {
            self.changed_policies.mark_members(id, transition);
            return;
        }
        let addresses = &self.cluster.pods[pod].attributes.addresses;
        self.node_ruleset.mark_elements_stale(id, addresses);
        if selection.key.is_local {
            self.node_ruleset.stale.addresses.extend(addresses);
        }
        if transition.emptiness_changed {
            self.node_ruleset
                .stale
                .activity_changed
                .extend(selection.targeted_by.iter());
        }
    }

    /// Starts or stops tracking the peers of a policy: on a node, they are only needed while the policy selects local
    /// pods.
    pub(super) fn update_policy_activity(&mut self, id: PolicyId) {
        let policy = &self.cluster.policies[id];
        let compiled = &policy.compiled;
        let has_targets = !self.cluster.selections[compiled.target].members.is_empty();
        let is_active = match self.node_ruleset.name {
            Some(_) => compiled.is_supported && has_targets,
            None => true,
        };
        if is_active == policy.is_active {
            return;
        }
        let needs: Vec<SelectionId> = compiled.required_selections().collect();
        for selection in needs {
            if is_active {
                self.use_selection(selection);
            } else {
                self.stop_using_selection(selection);
            }
        }
        self.cluster.policies[id].is_active = is_active;
    }

    /// Calls `update_policy_activity` for all policies whose target became empty or non-empty. Called at the end of
    /// each change.
    pub(super) fn update_stale_policy_activity(&mut self) {
        for policy in std::mem::take(&mut self.node_ruleset.stale.activity_changed) {
            let name = self.cluster.policies[policy].name.clone();
            self.node_ruleset.stale.policies.insert(name);
            self.update_policy_activity(policy);
        }
    }
}
