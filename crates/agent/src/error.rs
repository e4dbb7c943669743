//! Errors that keep the agent from running.

use crate::nft;

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(transparent)]
    Nft(#[from] nft::NftablesError),
    #[error(
        "permission denied: changing nftables rules requires root or the capability CAP_NET_ADMIN"
    )]
    PermissionDenied,
    #[error(
        "the kernel does not support the required rules: {0}. nftables for the family inet and conntrack are required: load the modules nf_tables, nft_ct and nf_conntrack (CONFIG_NF_TABLES, CONFIG_NF_TABLES_INET, CONFIG_NFT_CT, CONFIG_NF_CONNTRACK)"
    )]
    UnsupportedKernel(nft::NftablesError),
}

impl AgentError {
    /// The error for a failed probe of the kernel.
    pub(crate) fn from_probe(error: nft::NftablesError) -> AgentError {
        match error.is_permission_denied() {
            true => AgentError::PermissionDenied,
            false => AgentError::UnsupportedKernel(error),
        }
    }
}
