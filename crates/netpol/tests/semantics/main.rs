//! What network policies mean, one sentence after the other.
//!
//! Every verdict is asked of the engine of the whole cluster, and of the rules of each node besides.

mod addresses;
mod cluster;
mod isolation;
mod namespaces;
mod nodes;
mod objects;
mod peers;
mod pods;
mod ports;
mod reasons;
mod summaries;
mod versions;
