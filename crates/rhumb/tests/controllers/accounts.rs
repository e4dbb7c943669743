//! Every namespace has its default account and the certificates of the server.

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::support::Server;
use crate::waiting::{found, make_namespace};

const ROOT_CA: &str = "kube-root-ca.crt";

#[tokio::test]
async fn accounts_and_certificates_are_there_and_come_back() {
    let server = Server::start();
    let client = server.client().await;
    make_namespace(&client, "a").await;
    for namespace in ["default", "kube-system", "a"] {
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
        let account = found(&accounts, "default", |_| true).await;
        accounts
            .delete("default", &DeleteParams::default())
            .await
            .expect("a deletion");
        found(&accounts, "default", |now| now.uid() != account.uid()).await;

        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let is_full = |map: &ConfigMap| {
            map.data.as_ref().is_some_and(|data| {
                data.len() == 1 && data["ca.crt"].starts_with("-----BEGIN CERTIFICATE-----\n")
            })
        };
        let map = found(&maps, ROOT_CA, is_full).await;
        for patch in [
            json!({"data": {"ca.crt": "-----BEGIN CERTIFICATE-----\nforged"}}),
            json!({"data": {"more": "x"}}),
            json!({"data": null}),
        ] {
            let patched = maps
                .patch(ROOT_CA, &PatchParams::default(), &Patch::Merge(patch))
                .await;
            patched.expect("a patch");
            found(&maps, ROOT_CA, |now| now.data == map.data).await;
        }
    }
}
