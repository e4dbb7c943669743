//! Dense integer ids of nodes, pods, matchers, terms and topologies.

rhumb_selection::ids! {
    /// A node, or the name of a node that pods are assigned to and that has not been listed.
    pub NodeId,
    pub PodId,
    /// A pod matcher: label selector plus namespaces.
    pub PodMatcherId,
    /// A service whose selector default spreading uses.
    pub(super) ServiceId,
    /// A pair of pod matcher and topology.
    pub TermId,
    /// The topology of one node label.
    pub TopologyId,
    /// A topology domain: one value of the node label of a topology.
    pub TopologyDomainId,
}
