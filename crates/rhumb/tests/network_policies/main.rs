//! Network policies with real packets: nodes and pods are network namespaces, each node has the built `rhumb agent`, and
//! TCP, UDP and SCTP of both families show who can reach whom. Needs root, `ip` and `nft`.

mod association;
mod bare;
mod network;
mod probe;
mod sctp;
mod setting;
mod site;
