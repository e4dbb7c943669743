//! Sees to network policies on one node, by nftables.
