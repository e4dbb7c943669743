//! Changes of etcd's users and permissions while the store is in use.

use std::path::Path;
use std::process::{Command, Stdio};

use etcd_client::{Client, ConnectOptions, Permission, PermissionType};
use rhumb_store::{Error, Revision, Store};

use crate::auth::{enable_auth, with_user};
use crate::{get, next_set, put};
use rhumb_etcd_harness::EtcdServer;

async fn root(server: &EtcdServer) -> Client {
    let options = ConnectOptions::new().with_user("root", "secret");
    Client::connect([server.endpoint()], Some(options))
        .await
        .unwrap()
}

fn openssl(directory: &Path, arguments: &[&str]) {
    let program = std::env::var_os("RHUMB_TEST_OPENSSL").unwrap_or_else(|| "openssl".into());
    let status = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .stderr(Stdio::null())
        .status();
    assert!(
        status.expect("run openssl to create keys").success(),
        "{arguments:?}"
    );
}

/// Unlike a simple token, a signed token (JWT) is valid only until the next change of any user.
#[tokio::test(flavor = "multi_thread")]
async fn signed_tokens_are_renewed_after_a_user_change() {
    let directory = tempfile::tempdir().unwrap();
    openssl(directory.path(), &["genrsa", "-out", "private", "2048"]);
    let public = ["rsa", "-in", "private", "-pubout", "-out", "public"];
    openssl(directory.path(), &public);
    let file = |name: &str| directory.path().join(name).display().to_string();
    let tokens = format!(
        "jwt,pub-key={},priv-key={},sign-method=RS256,ttl=10m",
        file("public"),
        file("private")
    );
    let server = EtcdServer::start_with("http", &["--auth-token", &tokens]).await;
    enable_auth(&server).await;
    let store = with_user(&server.endpoint(), "root", "secret")
        .await
        .unwrap();
    let mut early = store.changes("/a", Revision::ZERO).await.unwrap();
    for user in ["first", "second"] {
        root(&server).await.user_add(user, "x", None).await.unwrap();
        let revision = store.commit(put("/a", user)).await.unwrap();
        assert_eq!(next_set(&mut *early).await.revision, revision);
        root(&server).await.user_delete(user).await.unwrap();
        assert_eq!(get(&store, "/a").await.unwrap().modified, revision);
        root(&server).await.user_add(user, "y", None).await.unwrap();
        let before = Revision::new(revision.get() - 1);
        let mut late = store.changes("/a", before).await.unwrap();
        assert_eq!(next_set(&mut *late).await.revision, revision);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_permissions_are_not_retryable() {
    let server = EtcdServer::start().await;
    enable_auth(&server).await;
    let mut root = root(&server).await;
    let slots = Permission::new(PermissionType::Readwrite, "/rhumb/outcomes/").with_prefix();
    root.role_grant_permission("narrow", slots).await.unwrap();
    let store = with_user(&server.endpoint(), "narrow", "secret")
        .await
        .unwrap();
    store.commit(put("/a/allowed", "1")).await.unwrap();
    for refused in [
        store.commit(put("/b", "1")).await.map(drop),
        store.get("/b").await.map(drop),
        store.changes("/b", Revision::ZERO).await.map(drop),
    ] {
        match refused {
            Err(error @ Error::Refused { .. }) => {
                assert!(!error.retryable());
                let text = error.to_string();
                assert!(text.contains("permission denied"), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
}
