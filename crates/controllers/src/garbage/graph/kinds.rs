//! Lists of whole kinds: what is not in them may be gone.

use super::{Graph, KindName, Marks, NodeId, Work};

impl Graph {
    /// A watch of the kind begins anew with a list.
    pub(crate) fn list_begins(&mut self, kind: &KindName) {
        for id in self.of_kind(kind) {
            if let Some(node) = self.node_mut(id) {
                node.marks.listed = false;
            }
        }
    }

    /// The list is complete. Whatever it did not have is looked up: it is gone, or it came to be known while the
    /// list went on.
    pub(crate) fn list_ends(&mut self, kind: &KindName, work: &mut Vec<Work>) {
        for id in self.of_kind(kind) {
            if let Some(node) = self.node_mut(id)
                && !node.marks.listed
                && !node.marks.gone
            {
                node.marks = Marks::default();
                work.push(Work::Check(node.identity.uid.clone()));
                self.drop_if_idle(id);
            }
        }
    }

    /// The server does not have the kind any more. Owners of that kind stay until it is known what they are.
    pub(crate) fn kind_gone(&mut self, kind: &KindName, work: &mut Vec<Work>) {
        for id in self.of_kind(kind) {
            let Some(node) = self.node_mut(id).filter(|node| !node.marks.gone) else {
                continue;
            };
            if node.dependents.is_empty() {
                self.remove(id, work);
            } else {
                node.marks = Marks::default();
                work.push(Work::Check(node.identity.uid.clone()));
            }
        }
    }

    fn of_kind(&self, kind: &KindName) -> Vec<NodeId> {
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
