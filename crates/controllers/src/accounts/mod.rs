//! Service accounts: every namespace has its `default` one and knows the certificates of the API server, and tokens
//! in secrets come and go with their accounts (`tokens`).

pub(crate) mod tokens;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::ResourceExt;

use crate::per_namespace::{self, Wanted};
use crate::{Context, Error};

/// Pods that name no account run as this one.
const DEFAULT_ACCOUNT: &str = "default";
const ROOT_CA: &str = "kube-root-ca.crt";
const ROOT_CA_KEY: &str = "ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const ROOT_CA_DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using \
internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
distributions of Kubernetes clusters.";

pub(crate) async fn run_default_account(context: Context) -> Result<(), Error> {
    per_namespace::run(&context, DefaultAccount).await
}

pub(crate) async fn run_root_ca(context: Context) -> Result<(), Error> {
    let Some(bundle) = context.options.root_ca.clone() else {
        tracing::warn!(
            "no config map tells pods the certificates of the API server: none are known"
        );
        return std::future::pending().await;
    };
    per_namespace::run(&context, RootCa { bundle }).await
}

struct DefaultAccount;

impl Wanted for DefaultAccount {
    type Object = ServiceAccount;

    fn name(&self) -> &str {
        DEFAULT_ACCOUNT
    }

    fn is_right(&self, _: &ServiceAccount) -> bool {
        true
    }

    fn right(&self, account: ServiceAccount) -> ServiceAccount {
        account
    }

    fn new_object(&self) -> ServiceAccount {
        ServiceAccount::default()
    }
}

struct RootCa {
    bundle: String,
}

impl Wanted for RootCa {
    type Object = ConfigMap;

    fn name(&self) -> &str {
        ROOT_CA
    }

    fn is_right(&self, map: &ConfigMap) -> bool {
        let data = map.data.iter().flatten();
        data.eq([(&ROOT_CA_KEY.to_owned(), &self.bundle)])
            && map
                .annotations()
                .get(DESCRIPTION)
                .is_some_and(|text| !text.is_empty())
    }

    fn right(&self, mut map: ConfigMap) -> ConfigMap {
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
