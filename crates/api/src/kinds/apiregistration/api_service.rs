//! APIService.

use crate::{Kind, Scope};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "apiregistration.k8s.io",
        "v1",
        "APIService",
        "apiservices",
        "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService",
    )
    .category("api-extensions")
    .storage("apiregistration.k8s.io/apiservices")
    .status()
}
