//! Authorization of every route: none answers a user without permissions.

use std::collections::BTreeSet;

use http::{Method, StatusCode};
use rhumb_api::{Kind, Verb};

use crate::support::{ClientCredentials, HttpTestClient, NOBODY, TestServer};

/// Permissions of every authenticated user, from upstream's `system:basic-user`.
const FOR_EVERYONE: [&str; 3] = [
    "create selfsubjectaccessreviews",
    "create selfsubjectrulesreviews",
    "create selfsubjectreviews",
];

struct AuthorizedRoute {
    method: Method,
    path: String,
    verb: &'static str,
    /// Resource with subresource.
    resource: String,
    group: String,
    namespace: Option<&'static str>,
}

fn routes_of(kind: &Kind, routes: &mut Vec<AuthorizedRoute>) {
    for version in &kind.versions {
        let root = match &*kind.group {
            "" => format!("/api/{}", version.version),
            group => format!("/apis/{group}/{}", version.version),
        };
        let namespaces: &[Option<&'static str>] = match kind.is_namespaced() {
            true => &[Some("ns"), None],
            false => &[None],
        };
        for &namespace in namespaces {
            let collection = match namespace {
                Some(namespace) => format!("{root}/namespaces/{namespace}/{}", kind.plural),
                None => format!("{root}/{}", kind.plural),
            };
            for &verb in kind.verbs {
                // Across namespaces only reading is possible.
                if kind.is_namespaced()
                    && namespace.is_none()
                    && !matches!(verb, Verb::List | Verb::Watch)
                {
                    continue;
                }
                routes.push(route(kind, &collection, verb, None, namespace));
            }
            if kind.is_namespaced() && namespace.is_none() {
                continue;
            }
            for subresource in &kind.subresources {
                for &verb in subresource.verbs {
                    routes.push(route(
                        kind,
                        &collection,
                        verb,
                        Some(&*subresource.name),
                        namespace,
                    ));
                }
            }
        }
    }
}

fn route(
    kind: &Kind,
    collection: &str,
    verb: Verb,
    subresource: Option<&str>,
    namespace: Option<&'static str>,
) -> AuthorizedRoute {
    let (method, at_object, query) = match verb {
        Verb::Create => (Method::POST, subresource.is_some(), ""),
        Verb::Delete => (Method::DELETE, true, ""),
        Verb::DeleteCollection => (Method::DELETE, false, ""),
        Verb::Get => (Method::GET, true, ""),
        Verb::List => (Method::GET, false, ""),
        Verb::Patch => (Method::PATCH, true, ""),
        Verb::Update => (Method::PUT, true, ""),
        Verb::Watch => (Method::GET, false, "?watch=true"),
    };
    let name = if at_object { "/x" } else { "" };
    let below = subresource.map(|it| format!("/{it}")).unwrap_or_default();
    // A namespace is authorized in the scope of itself.
    let namespace = match &*kind.plural {
        "namespaces" if at_object => Some("x"),
        _ => namespace,
    };
    AuthorizedRoute {
        method,
        path: format!("{collection}{name}{below}{query}"),
        verb: verb.name(),
        resource: format!("{}{below}", kind.plural),
        group: kind.group.to_string(),
        namespace,
    }
}

fn all_routes() -> Vec<AuthorizedRoute> {
    let mut routes = Vec::new();
    for kind in rhumb_api::kinds::all() {
        routes_of(&kind, &mut routes);
    }
    routes
}

async fn code(client: &mut HttpTestClient, method: &Method, path: &str) -> StatusCode {
    client.send_request(method.clone(), path, "").await.code
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_rejects_a_user_without_permissions() {
    let server = TestServer::start(&[]);
    let mut nobody = server.http2(ClientCredentials::Token(NOBODY)).await;
    let mut stranger = server
        .http2(ClientCredentials::Token("no-such-token"))
        .await;
    let mut anonymous = server.http2(ClientCredentials::Anonymous).await;
    let routes = all_routes();
    assert!(routes.len() > 600, "{} routes", routes.len());
    let mut wrong = Vec::new();
    for route in &routes {
        let AuthorizedRoute {
            method,
            path,
            verb,
            resource,
            group,
            namespace,
        } = route;
        if code(&mut stranger, method, path).await != StatusCode::UNAUTHORIZED {
            wrong.push(format!("{method} {path}: a wrong token is not refused"));
        }
        if code(&mut anonymous, method, path).await != StatusCode::FORBIDDEN {
            wrong.push(format!("{method} {path}: anonymous users are not refused"));
        }
        let response = nobody.send_request(method.clone(), path, "").await;
        if FOR_EVERYONE.contains(&format!("{verb} {resource}").as_str()) {
            if response.code == StatusCode::FORBIDDEN {
                wrong.push(format!("{method} {path}: is for everyone, and refused"));
            }
            continue;
        }
        let scope = match namespace {
            Some(namespace) => format!("in the namespace \"{namespace}\""),
            None => "at the cluster scope".to_owned(),
        };
        let want = format!(
            "User \"nobody\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {scope}"
        );
        let message = response.json()["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if response.code != StatusCode::FORBIDDEN || !message.ends_with(&want) {
            wrong.push(format!("{method} {path}: {} {message}", response.code));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        routes.len(),
        wrong.join("\n")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_resource_in_discovery_is_in_the_route_table() {
    let server = TestServer::start(&[]);
    let mut admin = server.http2(ClientCredentials::Admin).await;
    let mut roots = vec!["/api/v1".to_owned()];
    let groups = admin.send_request(Method::GET, "/apis", "").await.json();
    for group in groups["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            roots.push(format!(
                "/apis/{}",
                version["groupVersion"].as_str().unwrap()
            ));
        }
    }
    let table: BTreeSet<String> = all_routes()
        .iter()
        .map(|route| format!("{} {} {}", route.group, route.resource, route.verb))
        .collect();
    let mut missing = Vec::new();
    for root in &roots {
        let list = admin.send_request(Method::GET, root, "").await.json();
        let group = root
            .strip_prefix("/apis/")
            .map_or("", |it| it.split('/').next().unwrap());
        for resource in list["resources"].as_array().unwrap() {
            for verb in resource["verbs"].as_array().unwrap() {
                let name = resource["name"].as_str().unwrap();
                let line = format!("{group} {name} {}", verb.as_str().unwrap());
                if !table.contains(&line) {
                    missing.push(line);
                }
            }
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn non_resource_paths_have_upstreams_access_rules() {
    let server = TestServer::start(&[]);
    let mut admin = server.http2(ClientCredentials::Admin).await;
    let mut nobody = server.http2(ClientCredentials::Token(NOBODY)).await;
    let mut stranger = server
        .http2(ClientCredentials::Token("no-such-token"))
        .await;
    let mut anonymous = server.http2(ClientCredentials::Anonymous).await;
    // Status codes for the admin, an authenticated user and an anonymous user.
    let cases = [
        ("/healthz", 200, 200, 200),
        ("/livez", 200, 200, 200),
        ("/readyz", 200, 200, 200),
        ("/version", 200, 200, 200),
        ("/api", 200, 200, 403),
        ("/apis", 200, 200, 403),
        ("/apis/apps", 200, 200, 403),
        ("/api/v1", 200, 200, 403),
        ("/apis/apps/v1", 200, 200, 403),
        ("/openapi/v2", 200, 200, 403),
        ("/openapi/v3", 200, 200, 403),
        ("/", 200, 403, 403),
        ("/metrics", 200, 403, 403),
        ("/openid/v1/jwks", 200, 403, 403),
        ("/.well-known/openid-configuration", 200, 403, 403),
        ("/nothing/here", 404, 403, 403),
    ];
    for (path, as_admin, as_nobody, as_anonymous) in cases {
        let got = [
            code(&mut admin, &Method::GET, path).await.as_u16(),
            code(&mut nobody, &Method::GET, path).await.as_u16(),
            code(&mut anonymous, &Method::GET, path).await.as_u16(),
        ];
        assert_eq!(got, [as_admin, as_nobody, as_anonymous], "{path}");
        assert_eq!(code(&mut stranger, &Method::GET, path).await, 401, "{path}");
    }
    let listed = admin.send_request(Method::GET, "/", "").await.json();
    for path in listed["paths"].as_array().unwrap() {
        let path = path.as_str().unwrap();
        assert_eq!(code(&mut admin, &Method::GET, path).await, 200, "{path}");
    }
    let refused = nobody.send_request(Method::GET, "/metrics", "").await;
    assert_eq!(
        refused.json()["message"],
        "forbidden: User \"nobody\" cannot get path \"/metrics\""
    );
}

/// An unreadable header must not be ignored: the caller would act as itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_impersonation_header_is_rejected() {
    let server = TestServer::start(&[]);
    let mut admin = server.http1(ClientCredentials::Admin).await;
    for (name, expected) in [
        (b"jos\xc3\xa9".as_slice(), 403),
        (b"jos\xff".as_slice(), 400),
    ] {
        let mut request = admin.request(Method::GET, "/api/v1/secrets", "");
        let value = http::HeaderValue::from_bytes(name).unwrap();
        request.headers_mut().insert("impersonate-user", value);
        let response = admin.send(request).await.unwrap();
        assert_eq!(response.status(), expected, "{name:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_with_a_mismatched_version_or_uid_is_rejected() {
    let server = TestServer::start(&[]);
    let mut admin = server.http1(ClientCredentials::Admin).await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let created = admin
        .send_request(Method::POST, leases, r#"{"metadata":{"name":"a"}}"#)
        .await;
    assert_eq!(created.code, 201, "{}", created.text());
    let path = format!("{leases}/a");
    for (version, code) in [("0", 422), ("1", 409)] {
        let body = format!(r#"{{"metadata":{{"name":"a","resourceVersion":"{version}"}}}}"#);
        let response = admin.send_request(Method::PUT, &path, &body).await;
        assert_eq!(response.code, code, "{}", response.text());
    }
    let gone = admin
        .send_request(
            Method::PUT,
            &format!("{leases}/b"),
            r#"{"metadata":{"name":"b","uid":"x"}}"#,
        )
        .await;
    assert_eq!(gone.code, 409, "{}", gone.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn v1_autoscaler_annotations_cannot_bypass_v2_validation() {
    let server = TestServer::start(&[]);
    let mut admin = server.http1(ClientCredentials::Admin).await;
    let body = serde_json::json!({
        "metadata": {"name": "a", "annotations": {
            "autoscaling.alpha.kubernetes.io/behavior":
                r#"{"ScaleUp":{"StabilizationWindowSeconds":"x"}}"#,
        }},
        "spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "d"}},
    });
    let path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    admin
        .send_request(Method::POST, path, &body.to_string())
        .await;
    let list = admin
        .send_request(
            Method::GET,
            "/apis/autoscaling/v2/horizontalpodautoscalers",
            "",
        )
        .await
        .json();
    for item in list["items"].as_array().unwrap() {
        let window = &item["spec"]["behavior"]["scaleUp"]["stabilizationWindowSeconds"];
        assert!(!window.is_string(), "{item}");
    }
}
