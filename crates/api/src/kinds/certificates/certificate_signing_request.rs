//! CertificateSigningRequest.

use crate::{Kind, Scope, SubresourceKind, Verb};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "certificates.k8s.io",
        "v1",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        "io.k8s.api.certificates.v1.CertificateSigningRequest",
    )
    .short(&["csr"])
    .subresource(
        "approval",
        SubresourceKind::Approval,
        &[Verb::Get, Verb::Patch, Verb::Update],
    )
    .status()
}
