//! Authorization and impersonation.

use http::{HeaderName, HeaderValue};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::authorization::v1::{SelfSubjectAccessReview, SubjectAccessReview};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use serde_json::json;

use crate::make::{code, object, refusal};
use crate::program::poll_until;
use crate::support::TestServer;

/// The user name that the server has for a client.
pub(crate) async fn current_user_name(client: &Client) -> String {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await;
    let user = review
        .expect("a review")
        .status
        .and_then(|status| status.user_info);
    user.and_then(|user| user.username).expect("a name")
}

/// A client with this token and without certificate.
pub(crate) async fn with_token(server: &TestServer, token: &str) -> Client {
    let user = json!({"token": token});
    server
        .client_with(|config| config.auth_info = object(user))
        .await
}

/// The administrator, impersonating another user.
async fn in_the_name_of(server: &TestServer, user: &'static str, group: &'static str) -> Client {
    let headers = [("impersonate-user", user), ("impersonate-group", group)];
    let headers = headers.map(|(name, value)| {
        (
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        )
    });
    server
        .client_with(|config| config.headers.extend(headers))
        .await
}

#[tokio::test]
async fn access_requires_a_role_binding() {
    let server = TestServer::start();
    let admin = server.client().await;
    let ann = in_the_name_of(&server, "ann", "system:authenticated").await;
    assert_eq!(current_user_name(&ann).await, "ann");
    let maps: Api<ConfigMap> = Api::namespaced(ann.clone(), "default");
    let refused = refusal(maps.list(&ListParams::default()).await);
    assert_eq!((refused.code, refused.reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        refused.message,
        "configmaps is forbidden: User \"ann\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
    let post = PostParams::default();
    let role = object(json!({
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}],
    }));
    Api::<Role>::namespaced(admin.clone(), "default")
        .create(&post, &role)
        .await
        .expect("a role");
    let binding = object(json!({
        "metadata": {"name": "ann"},
        "subjects": [{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
    }));
    Api::<RoleBinding>::namespaced(admin, "default")
        .create(&post, &binding)
        .await
        .expect("a binding");
    // The authorizer sees new bindings with a short delay, as upstream's does.
    poll_until("permission to list", async || {
        maps.list(&ListParams::default()).await.ok()
    })
    .await;
    let all: Api<ConfigMap> = Api::all(ann);
    assert_eq!(
        code(all.list(&ListParams::default()).await).0,
        403,
        "in its namespace only"
    );
}

#[tokio::test]
async fn access_reviews_match_actual_authorization() {
    let server = TestServer::start();
    let admin = server.client().await;
    let nobody = in_the_name_of(&server, "ann", "system:authenticated").await;
    let asked =
        json!({"resourceAttributes": {"namespace": "default", "verb": "list", "resource": "pods"}});
    for (client, expected) in [(&admin, true), (&nobody, false)] {
        let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
        let review = object(json!({"metadata": {}, "spec": asked}));
        let answer = reviews
            .create(&PostParams::default(), &review)
            .await
            .expect("a review");
        assert_eq!(answer.status.expect("a status").allowed, expected);
    }
    for (group, expected) in [("system:masters", true), ("system:authenticated", false)] {
        let mut spec = asked.clone();
        spec["user"] = "bob".into();
        spec["groups"] = json!([group]);
        let reviews: Api<SubjectAccessReview> = Api::all(admin.clone());
        let review = object(json!({"metadata": {}, "spec": spec}));
        let answer = reviews
            .create(&PostParams::default(), &review)
            .await
            .expect("a review");
        assert_eq!(
            answer.status.expect("a status").allowed,
            expected,
            "{group}"
        );
    }
}

#[tokio::test]
async fn impersonation_requires_permission() {
    let server = TestServer::start();
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> =
        Api::namespaced(server.client().await, "default");
    let post = PostParams::default();
    accounts
        .create(&post, &object(json!({"metadata": {"name": "robot"}})))
        .await
        .expect("an account");
    let request = k8s_openapi::api::authentication::v1::TokenRequest::default();
    let answer: k8s_openapi::api::authentication::v1::TokenRequest = accounts
        .create_subresource("token", "robot", &post, &request)
        .await
        .expect("a token");
    let user = json!({"token": answer.status.expect("a status").token});
    let robot = server
        .client_with(|config| {
            config.auth_info = object(user);
            let name = HeaderName::from_static("impersonate-user");
            config
                .headers
                .push((name, HeaderValue::from_static("admin")));
        })
        .await;
    let namespaces: Api<Namespace> = Api::all(robot);
    let refused = refusal(namespaces.list(&ListParams::default()).await);
    assert_eq!(refused.code, 403);
    assert!(
        refused.message.contains("cannot impersonate"),
        "{}",
        refused.message
    );
}

#[tokio::test]
async fn invalid_token_is_unauthorized_instead_of_anonymous() {
    let server = TestServer::start();
    let stranger = with_token(&server, "not-a-token").await;
    let namespaces: Api<Namespace> = Api::all(stranger);
    assert_eq!(
        code(namespaces.list(&ListParams::default()).await),
        (401, "Unauthorized".into())
    );
    let nobody = server
        .client_with(|config| config.auth_info = object(json!({})))
        .await;
    assert_eq!(
        nobody
            .apiserver_version()
            .await
            .expect("anyone may ask")
            .minor,
        "36"
    );
    let namespaces: Api<Namespace> = Api::all(nobody);
    let refused = refusal(namespaces.list(&ListParams::default()).await);
    assert!(
        refused
            .message
            .contains("User \"system:anonymous\" cannot list"),
        "{}",
        refused.message
    );
}
