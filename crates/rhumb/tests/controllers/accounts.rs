//! Default service accounts and root certificate config maps of namespaces.

use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::config::AuthInfo;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::make::{code, object};
use crate::support::TestServer;
use crate::waiting::{make_namespace, wait_for, wait_until_deleted};

const ROOT_CA: &str = "kube-root-ca.crt";

#[tokio::test]
async fn default_accounts_and_root_certificates_are_recreated() {
    let server = TestServer::start_with(&[]);
    let client = server.client().await;
    make_namespace(&client, "a").await;
    for namespace in ["default", "kube-system", "a"] {
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
        let account = wait_for(&accounts, "default", |_| true).await;
        accounts
            .delete("default", &DeleteParams::default())
            .await
            .expect("a deletion");
        wait_for(&accounts, "default", |now| now.uid() != account.uid()).await;

        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let is_full = |map: &ConfigMap| {
            map.data.as_ref().is_some_and(|data| {
                data.len() == 1 && data["ca.crt"].starts_with("-----BEGIN CERTIFICATE-----\n")
            })
        };
        let map = wait_for(&maps, ROOT_CA, is_full).await;
        for patch in [
            json!({"data": {"ca.crt": "-----BEGIN CERTIFICATE-----\nforged"}}),
            json!({"data": {"more": "x"}}),
            json!({"data": null}),
        ] {
            let patched = maps
                .patch(ROOT_CA, &PatchParams::default(), &Patch::Merge(patch))
                .await;
            patched.expect("a patch");
            wait_for(&maps, ROOT_CA, |now| now.data == map.data).await;
        }
    }
}

/// A token secret is valid only as long as its account.
#[tokio::test]
async fn token_secret_is_filled_and_deleted_with_its_account() {
    let server = TestServer::start_with(&[]);
    let client = server.client().await;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let params = PostParams::default();
    let robot = object(json!({
        "metadata": {"name": "robot"},
        "secrets": [{"name": "key"}, {"name": "old"}],
    }));
    let robot: ServiceAccount = accounts.create(&params, &robot).await.expect("an account");
    let asked = |name: &str, account: &str| {
        object(json!({
            "metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": account}},
            "type": "kubernetes.io/service-account-token",
        }))
    };
    let created = secrets.create(&params, &asked("key", "robot")).await;
    created.expect("a secret");
    let has_token = |secret: &Secret| {
        let data = secret.data.as_ref();
        data.is_some_and(|data| {
            ["token", "ca.crt", "namespace"]
                .iter()
                .all(|key| data.contains_key(*key))
        })
    };
    let secret = wait_for(&secrets, "key", has_token).await;
    let uid = secret
        .annotations()
        .get("kubernetes.io/service-account.uid");
    assert_eq!(uid, robot.uid().as_ref());
    let token = secret.data.expect("data")["token"].0.clone();
    let token = String::from_utf8(token).expect("text");
    let of_robot = server
        .client_with(|config| {
            config.auth_info = AuthInfo {
                token: Some(token.into()),
                ..AuthInfo::default()
            };
        })
        .await;
    let reviews: Api<SelfSubjectReview> = Api::all(of_robot);
    let who = reviews.create(&params, &SelfSubjectReview::default()).await;
    let who = who
        .expect("a good token")
        .status
        .and_then(|status| status.user_info);
    let name = who.and_then(|user| user.username);
    assert_eq!(name.as_deref(), Some("system:serviceaccount:default:robot"));

    // A secret of a missing account is deleted.
    let created = secrets.create(&params, &asked("stray", "nobody")).await;
    created.expect("a secret");
    wait_until_deleted(&secrets, "stray").await;
    // A deleted secret is removed from the account.
    let created = secrets.create(&params, &asked("old", "robot")).await;
    created.expect("a secret");
    let deleted = secrets.delete("old", &DeleteParams::default()).await;
    deleted.expect("a deletion");
    wait_for(&accounts, "robot", |robot| {
        let named = robot.secrets.iter().flatten();
        named.filter_map(|named| named.name.as_deref()).eq(["key"])
    })
    .await;
    let deleted = accounts.delete("robot", &DeleteParams::default()).await;
    deleted.expect("a deletion");
    wait_until_deleted(&secrets, "key").await;
    let refused = reviews.create(&params, &SelfSubjectReview::default()).await;
    assert_eq!(code(refused), (401, "Unauthorized".into()));
}
