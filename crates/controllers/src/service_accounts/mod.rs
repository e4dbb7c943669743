//! Service account controllers: the `default` ServiceAccount and the `kube-root-ca.crt` ConfigMap of every namespace,
//! and token secrets (submodule).

pub(crate) mod token_secrets;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::ResourceExt;

use crate::per_namespace::{self, PerNamespaceObject};
use crate::{ControllerContext, Error};

/// The service account of pods that name none.
const DEFAULT_ACCOUNT: &str = "default";
const ROOT_CA: &str = "kube-root-ca.crt";
const ROOT_CA_KEY: &str = "ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const ROOT_CA_DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using \
internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
distributions of Kubernetes clusters.";

pub(crate) async fn run_default_account(context: ControllerContext) -> Result<(), Error> {
    per_namespace::run(&context, DefaultServiceAccountTemplate).await
}

pub(crate) async fn run_root_ca(context: ControllerContext) -> Result<(), Error> {
    let Some(bundle) = context.options.root_ca.clone() else {
        tracing::warn!(
            "no CA bundle of the API server is configured; kube-root-ca.crt is not published"
        );
        return std::future::pending().await;
    };
    per_namespace::run(&context, RootCaConfigMap { bundle }).await
}

struct DefaultServiceAccountTemplate;

impl PerNamespaceObject for DefaultServiceAccountTemplate {
    type Object = ServiceAccount;

    fn name(&self) -> &str {
        DEFAULT_ACCOUNT
    }

    fn is_up_to_date(&self, _: &ServiceAccount) -> bool {
        true
    }

    fn with_desired_content(&self, account: ServiceAccount) -> ServiceAccount {
        account
    }

    fn new_object(&self) -> ServiceAccount {
        ServiceAccount::default()
    }
}

struct RootCaConfigMap {
    bundle: String,
}

impl PerNamespaceObject for RootCaConfigMap {
    type Object = ConfigMap;

    fn name(&self) -> &str {
        ROOT_CA
    }

    fn is_up_to_date(&self, map: &ConfigMap) -> bool {
        let data = map.data.iter().flatten();
        data.eq([(&ROOT_CA_KEY.to_owned(), &self.bundle)])
            && map
                .annotations()
                .get(DESCRIPTION)
                .is_some_and(|text| !text.is_empty())
    }

    fn with_desired_content(&self, mut map: ConfigMap) -> ConfigMap {
        map.data = Some(BTreeMap::from([(
            ROOT_CA_KEY.to_owned(),
            self.bundle.clone(),
        )]));
        let description = ROOT_CA_DESCRIPTION.to_owned();
        map.annotations_mut()
            .insert(DESCRIPTION.to_owned(), description);
        map
    }

    fn new_object(&self) -> ConfigMap {
        ConfigMap::default()
    }
}
