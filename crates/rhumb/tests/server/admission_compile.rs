//! `rhumb admission compile` and `rhumb admission lint`.

use std::path::Path;
use std::process::{Command, Output};

use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::program::kubeconfig;
use crate::support::{ClientCredentials, HttpResponse, TestServer};

fn rhumb(arguments: &[&str], paths: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhumb"));
    command.arg("admission").args(arguments).args(paths);
    command.output().unwrap()
}

fn texts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

fn compile(manifest: &str, format: &str) -> (Option<i32>, String, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("config.yaml");
    std::fs::write(&file, manifest).unwrap();
    let output = rhumb(&["compile", "-o", format, "-f"], &[&file]);
    let (code, out, errors) = texts(&output);
    (code, out, errors.replace(file.to_str().unwrap(), "FILE"))
}

const CONFIGURATION: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: other}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: labels}
webhooks:
- name: labels.example.com
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {url: "https://127.0.0.1:1/"}
  matchPolicy: Exact
  rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"]}]
  exclusionRules:
  - {apiGroups: [coordination.k8s.io], resources: [leases]}
  - {Namespaces: [kube-system], objectNames: [web]}
- name: teams.example.com
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  excludeResourceRules: [{namespaceSelector: {matchLabels: {team: a}}}]
"#;

#[test]
fn compile_replaces_exclusion_rules_by_match_conditions() {
    let (code, out, notes) = compile(CONFIGURATION, "json");
    assert_eq!(code, Some(0), "{notes}");
    assert_eq!(
        notes,
        "note: FILE, document 2: webhook teams.example.com: excludeResourceRules[0]: its namespaceSelector is moved to the \
         namespaceSelector of the webhook, as {\"key\":\"team\",\"operator\":\"NotIn\",\"values\":[\"a\"]}\n"
    );
    let list: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(list["items"][0]["kind"], "ConfigMap");
    let [labels, teams] = list["items"][1]["webhooks"].as_array().unwrap().as_slice() else {
        panic!("{out}");
    };
    assert!(labels["excludeResourceRules"].is_null() && teams["excludeResourceRules"].is_null());
    let expression = "!(
  request.resource.group == \"coordination.k8s.io\" && request.resource.resource == \"leases\" && \
  !has(request.subResource) ||
  !has(request.subResource) && has(request.namespace) && !(request.resource.group == \"\" && \
  request.resource.resource == \"namespaces\") && request.namespace == \"kube-system\" && has(request.name) && \
  request.name == \"web\"
)";
    assert_eq!(
        labels["matchConditions"],
        json!([{"name": "exclude-resource-rules", "expression": expression}])
    );
    assert_eq!(
        teams["namespaceSelector"],
        json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]})
    );

    // The output has no rules left, so that compiling it again changes nothing.
    let (code, yaml, _) = compile(CONFIGURATION, "yaml");
    assert_eq!(code, Some(0));
    let (code, again, notes) = compile(&yaml, "yaml");
    assert_eq!((code, again, notes), (Some(0), yaml, String::new()));
}

#[test]
fn compile_refuses_what_it_cannot_translate() {
    let policy = "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec: {matchConstraints: {excludeResourceRules: [{Namespaces: [a]}]}, validations: [{expression: 'true'}]}
";
    let partial = CONFIGURATION.replace(
        "Namespaces: [kube-system]",
        "namespaceSelector: {matchLabels: {team: a}}",
    );
    for (manifest, says) in [
        (
            partial,
            "rhumb: FILE, document 2: webhook labels.example.com: excludeResourceRules[1]: its namespaceSelector cannot be \
             translated",
        ),
        (
            policy.to_owned(),
            "rhumb: FILE: exclusion rules of policies cannot be translated",
        ),
        // As the server would.
        (
            CONFIGURATION.replace("name: labels.example.com", "name: labels"),
            "rhumb: FILE, document 2: webhooks[0].name: Invalid value: \"labels\": should be a domain with at least three \
             segments",
        ),
        (
            CONFIGURATION.replace("sideEffects: None", "sideEffect: None"),
            "rhumb: FILE, document 2: unknown field \"webhooks[0].sideEffect\"",
        ),
        // Without the misspelt restriction the rule would exclude more.
        (
            CONFIGURATION.replace("Namespaces: [kube-system]", "nameSpaces: [kube-system]"),
            "rhumb: FILE, document 2: unknown field \"webhooks[0].excludeResourceRules[1].nameSpaces\"; did you mean \
             \"namespaces\"?",
        ),
        (String::new(), "rhumb: there is no object in the input"),
    ] {
        let (code, out, errors) = compile(&manifest, "yaml");
        assert_eq!((code, out.as_str()), (Some(2), ""), "{errors}");
        assert!(errors.starts_with(says), "{errors}");
    }
}

fn lint(server: &TestServer) -> (Option<i32>, Value) {
    let kubeconfig = kubeconfig(server.directory.path());
    let output = rhumb(&["lint", "-o", "json", "--kubeconfig"], &[&kubeconfig]);
    let (code, out, errors) = texts(&output);
    (
        code,
        serde_json::from_str(&out).unwrap_or_else(|_| panic!("{errors}")),
    )
}

async fn apply_patch(server: &TestServer, finding: &Value) -> HttpResponse {
    let text = |field: &str| finding[field].as_str().unwrap();
    let path = format!(
        "/apis/admissionregistration.k8s.io/v1/{}/{}",
        text("resource"),
        text("configuration")
    );
    let request = Request::patch(path)
        .header("host", "rhumb")
        .header("content-type", "application/json-patch+json")
        .body(Full::from(finding["patch"].to_string()))
        .unwrap();
    let mut client = server.http1(ClientCredentials::Admin).await;
    HttpResponse::read(client.send(request).await.unwrap()).await
}

/// Registers webhooks that intercept everything, applies the patches of `lint`, and expects that nothing is left.
async fn patches_resolve_all_findings(flags: &[&str], field: &str) {
    let server = TestServer::start(flags);
    let (code, findings) = lint(&server);
    assert_eq!((code, findings), (Some(0), json!([])));
    let hook = |name: &str, policy: &str| {
        json!({
            "name": name,
            "sideEffects": "None",
            "failurePolicy": policy,
            "timeoutSeconds": 1,
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}],
            "matchConditions": [{"name": "own", "expression": "request.operation != 'CONNECT'"}],
        })
    };
    let hooks = [
        hook("a.example.com", "Ignore"),
        hook("b.example.com", "Fail"),
    ];
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let body = json!({"metadata": {"name": "all"}, "webhooks": hooks}).to_string();
    let admin = ClientCredentials::Admin;
    let response = server.send_request(admin, Method::POST, path, &body).await;
    assert_eq!(response.code, 201, "{}", response.text());

    let (code, findings) = lint(&server);
    let [finding] = findings.as_array().unwrap().as_slice() else {
        panic!("{findings}");
    };
    assert_eq!(code, Some(3));
    assert_eq!(finding["webhook"], "b.example.com");
    let names = finding["intercepts"].as_array().unwrap().iter();
    let names: Vec<&str> = names.filter_map(|one| one["name"].as_str()).collect();
    assert!(
        names.contains(&"nodes") && names.contains(&"token reviews"),
        "{names:?}"
    );
    let patched = finding["patch"].as_array().unwrap().iter();
    let patched: Vec<&str> = patched.filter_map(|one| one["path"].as_str()).collect();
    let changed = format!("/webhooks/1/{field}");
    assert_eq!(patched, ["/webhooks/1/name", &changed, &changed]);

    let kubeconfig = kubeconfig(server.directory.path());
    let (_, text, _) = texts(&rhumb(&["lint", "--kubeconfig"], &[&kubeconfig]));
    assert!(
        text.contains("kubectl patch validatingwebhookconfigurations all --type=json -p '["),
        "{text}"
    );
    assert!(
        text.ends_with("\n1 webhook can stop the cluster\n"),
        "{text}"
    );

    // A concurrent change by another client is not overwritten.
    let others = match field {
        "matchConditions" => json!([{"name": "other", "expression": "true"}]),
        _ => json!([{"resources": ["events"]}]),
    };
    let mut concurrent = finding.clone();
    concurrent["patch"] = json!([{"op": "add", "path": changed, "value": others}]);
    let response = apply_patch(&server, &concurrent).await;
    assert_eq!(response.code, 200, "{}", response.text());
    let response = apply_patch(&server, finding).await;
    assert_eq!(response.code, 422, "{}", response.text());
    concurrent["patch"][0]["value"] = hooks[1][field].clone();
    let response = apply_patch(&server, &concurrent).await;
    assert_eq!(response.code, 200, "{}", response.text());

    let response = apply_patch(&server, finding).await;
    assert_eq!(response.code, 200, "{}", response.text());
    assert_eq!(
        response.json()["webhooks"][1]["matchConditions"][0]["name"],
        "own"
    );
    let (code, findings) = lint(&server);
    assert_eq!((code, findings), (Some(0), json!([])));
}

#[tokio::test]
async fn lint_patches_with_exclusion_rules_where_the_server_has_them() {
    patches_resolve_all_findings(&[], "excludeResourceRules").await;
}

#[tokio::test]
async fn lint_patches_with_match_conditions_for_other_servers() {
    let flags = ["--feature-gates=AdmissionWebhookExclusionRules=false"];
    patches_resolve_all_findings(&flags, "matchConditions").await;
}
