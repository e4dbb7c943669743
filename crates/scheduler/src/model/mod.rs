//! Pods and nodes as far as scheduling looks at them: read once when they change, and never again.

mod budget;
mod group;
mod labels;
mod node;
mod node_selector;
mod pod;
mod read;
mod resources;
mod spread;
mod term;
mod toleration;

pub use budget::Budget;
pub use group::{Group, GroupKey, GroupKind};
pub use labels::Labels;
pub use node::{Image, Node, Taint};
pub use node_selector::{NodeMatch, NodeRequirement, NodeSelector, NodeTerm, PreferredNodes};
pub use pod::{Controller, HostPort, NotScheduled, Pod, PodKey, PreemptionPolicy};
pub use resources::Resources;
pub use spread::{NodePolicy, SpreadConstraint, WhenUnsatisfiable};
pub use term::{NamespaceRule, Picker, PodAffinity, Term, WeightedTerm};
pub use toleration::{Effect, Toleration, TolerationOperator};
