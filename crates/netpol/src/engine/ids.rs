//! The ids of everything that the engine stores in slots.

rhumb_selection::ids! {
    pub(crate) NamespaceId,
    pub(crate) NamespaceSelectorId,
    pub(crate) PodId,
    pub(crate) SelectionId,
    pub(crate) SelectorId,
    pub(crate) PolicyId,
}
