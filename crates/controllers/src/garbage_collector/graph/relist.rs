//! Relists and removal of whole kinds: objects that a list does not return may be gone.

use super::{ApiVersionKind, GraphAction, GraphNodeFlags, GraphNodeId, OwnershipGraph};

impl OwnershipGraph {
    /// The watch of the kind restarts with a list.
    pub(crate) fn begin_relist(&mut self, kind: &ApiVersionKind) {
        for id in self.of_kind(kind) {
            if let Some(node) = self.node_mut(id) {
                node.flags.listed = false;
            }
        }
    }

    /// The list is complete. Objects that it did not return are checked: they are gone, or became known meanwhile.
    pub(crate) fn finish_relist(&mut self, kind: &ApiVersionKind, actions: &mut Vec<GraphAction>) {
        for id in self.of_kind(kind) {
            if let Some(node) = self.node_mut(id)
                && !node.flags.listed
                && !node.flags.gone
            {
                node.flags = GraphNodeFlags::default();
                actions.push(GraphAction::Check(node.identity.uid.clone()));
                self.remove_if_unused(id);
            }
        }
    }

    /// The kind is no longer served. Owners of that kind stay, unconfirmed, until a lookup succeeds.
    pub(crate) fn remove_kind(&mut self, kind: &ApiVersionKind, actions: &mut Vec<GraphAction>) {
        for id in self.of_kind(kind) {
            let Some(node) = self.node_mut(id).filter(|node| !node.flags.gone) else {
                continue;
            };
            if node.dependents.is_empty() {
                self.remove(id, actions);
            } else {
                node.flags = GraphNodeFlags::default();
                actions.push(GraphAction::Check(node.identity.uid.clone()));
            }
        }
    }

    fn of_kind(&self, kind: &ApiVersionKind) -> Vec<GraphNodeId> {
        let nodes = (0..).zip(&self.nodes);
        nodes
            .filter(|(_, node)| {
                node.as_ref()
                    .is_some_and(|node| node.identity.kind.is_version_of(kind))
            })
            .map(|(id, _)| id)
            .collect()
    }
}
