//! The roles and bindings that every cluster begins with.

mod reconcile;

use serde_json::{Map, Value};

use crate::rbac::Kind;

pub use reconcile::{Reconciled, reconcile};

/// One object of the policy that every cluster begins with.
#[derive(Debug, Clone, PartialEq)]
pub struct BootstrapObject {
    pub kind: Kind,
    /// Empty for cluster-wide kinds. The namespaces must be there before.
    pub namespace: &'static str,
    pub name: String,
    pub object: Map<String, Value>,
}

/// All of them: cluster-wide roles first, then their bindings, then those of namespaces.
pub fn objects() -> Vec<BootstrapObject> {
    Vec::new()
}
