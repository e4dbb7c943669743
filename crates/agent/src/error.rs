//! Why an agent cannot run.

use crate::nft;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Nft(#[from] nft::Error),
    #[error(
        "this process may not change the rules of the kernel: run it as root, or give it the capability CAP_NET_ADMIN"
    )]
    NotAllowed,
    #[error(
        "the kernel cannot have the rules that are needed: {0}. It must have nftables for the family inet, and conntrack: load the modules nf_tables, nft_ct and nf_conntrack (CONFIG_NF_TABLES, CONFIG_NF_TABLES_INET, CONFIG_NFT_CT, CONFIG_NF_CONNTRACK)"
    )]
    Kernel(nft::Error),
}

impl Error {
    /// Why a kernel does not have what every program needs.
    pub(crate) fn of_kernel(error: nft::Error) -> Error {
        match error.is_forbidden() {
            true => Error::NotAllowed,
            false => Error::Kernel(error),
        }
    }
}
