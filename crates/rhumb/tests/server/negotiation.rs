//! Representations of responses that are not stored objects, and the text of discovery documents.

use http::{HeaderValue, Method};
use serde_json::{Value, json};

use super::support::{ClientCredentials, HttpResponse, TestServer};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/default/token";

async fn post(server: &TestServer, path: &str, accept: &str, body: &Value) -> HttpResponse {
    let mut client = server.http2(ClientCredentials::Admin).await;
    let mut request = client.request(Method::POST, path, &body.to_string());
    let accept = HeaderValue::from_str(accept).expect("a header");
    request.headers_mut().insert("accept", accept);
    HttpResponse::read(client.send(request).await.expect("an answer")).await
}

#[tokio::test]
async fn reviews_and_tokens_have_no_columns() {
    let server = TestServer::start(&[]);
    let attributes = json!({"verb": "get", "resource": "pods"});
    let review = json!({"spec": {"user": "x", "resourceAttributes": attributes}});
    let metadata = json!({"name": "p", "namespace": "default"});
    for (path, body) in [
        (
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            &review,
        ),
        (
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            &review,
        ),
        (
            "/apis/authentication.k8s.io/v1/tokenreviews",
            &json!({"spec": {"token": "x"}}),
        ),
        (
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            &json!({}),
        ),
        (TOKEN, &json!({"spec": {}})),
    ] {
        let refused = post(&server, path, TABLE, body).await;
        assert_eq!(refused.code, 406, "{path}: {}", refused.text());
        // As kubectl asks: the object, if there is no table.
        let answered = post(&server, path, &format!("{TABLE},application/json"), body).await;
        assert_eq!(answered.code, 201, "{path}: {}", answered.text());
        assert!(answered.json()["status"].is_object(), "{path}");
        let partial = post(&server, path, PARTIAL, body).await;
        assert_eq!(partial.code, 201, "{path}: {}", partial.text());
        let partial = partial.json();
        assert_eq!(partial["kind"], "PartialObjectMetadata", "{path}");
        assert_eq!(partial["apiVersion"], "meta.k8s.io/v1", "{path}");
        let keys = partial.as_object().map(serde_json::Map::len);
        assert_eq!(keys, Some(3), "{path}: {partial}");
        let protobuf = PARTIAL.replace("json", "vnd.kubernetes.protobuf");
        assert_eq!(
            post(&server, path, &protobuf, body).await.code,
            201,
            "{path}"
        );
    }
    // Rejected before it has an effect: the pod is not looked up.
    let eviction = json!({"metadata": metadata});
    let path = "/api/v1/namespaces/default/pods/p/eviction";
    assert_eq!(post(&server, path, TABLE, &eviction).await.code, 406);
    let partial = post(&server, TOKEN, PARTIAL, &json!({"spec": {}}))
        .await
        .json();
    assert_eq!(partial["metadata"]["name"], "default");
}

/// Scripts search the text of these documents.
#[tokio::test]
async fn discovery_documents_are_written_as_upstream_writes_them() {
    const VERBS: &str =
        r#"["create","delete","deletecollection","get","list","patch","update","watch"]"#;
    const AGGREGATED: &str =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let server = TestServer::start(&[]);
    let mut client = server.http2(ClientCredentials::Admin).await;
    let pods = format!(
        r#"{{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":{VERBS},"shortNames":["po"],"categories":["all"],"storageVersionHash":"xPOwRZ+Yhw8="}}"#
    );
    let aggregated_pods = format!(
        r#"{{"resource":"pods","responseKind":{{"group":"","version":"","kind":"Pod"}},"scope":"Namespaced","singularResource":"pod","verbs":{VERBS},"shortNames":["po"],"categories":["all"],"subresources":[{{"subresource":"attach","responseKind":"#
    );
    let eviction = r#"{"name":"pods/eviction","singularName":"","namespaced":true,"group":"policy","version":"v1","kind":"Eviction","verbs":["create"]}"#;
    for (path, accept, expect) in [
        (
            "/api/v1",
            "",
            r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"#,
        ),
        ("/api/v1", "", &*pods),
        ("/api/v1", "", eviction),
        (
            "/apis/apps",
            "",
            r#"{"kind":"APIGroup","apiVersion":"v1","name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}"#,
        ),
        (
            "/apis",
            "",
            r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apiregistration.k8s.io","versions":[{"groupVersion":"#,
        ),
        (
            "/api",
            "",
            r#"{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":""#,
        ),
        (
            "/api",
            AGGREGATED,
            r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[{"metadata":{},"versions":[{"version":"v1","resources":[{"resource":"#,
        ),
        ("/api", AGGREGATED, &*aggregated_pods),
    ] {
        let mut request = client.request(Method::GET, path, "");
        let accept = HeaderValue::from_str(accept).expect("a header");
        request.headers_mut().insert("accept", accept);
        let text = HttpResponse::read(client.send(request).await.expect("an answer"))
            .await
            .text();
        assert!(text.contains(expect), "{path}: {expect}\n{text}");
        assert!(text.ends_with("}\n") && text.lines().count() == 1, "{path}");
    }
    for path in [
        "/api/v1/namespaces/default",
        "/api/v1/namespaces/default/pods",
        "/api/v1/nodes/none",
    ] {
        let text = client.send_request(Method::GET, path, "").await.text();
        assert!(
            text.ends_with("}\n") && text.lines().count() == 1,
            "{path}: {text}"
        );
    }
}
