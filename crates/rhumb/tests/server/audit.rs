//! The audit log: request metadata, and bodies according to the policy.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    CONFIG_MAPS, ClientCredentials, HttpResponse, NOBODY, TestServer, config_map,
};

fn audit_lines(path: &Path) -> Vec<Value> {
    std::fs::read_to_string(path)
        .unwrap()
        .split_inclusive('\n')
        // The last line may be incomplete.
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect()
}

/// Waits until the log contains the lines of a request.
async fn audited(path: &Path, id: &str, count: usize) -> Vec<Value> {
    for _ in 0..200 {
        let mut lines = audit_lines(path);
        lines.retain(|line| line["auditID"] == id);
        if lines.len() >= count {
            return lines;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the audit log has no {count} lines for {id}");
}

fn id(response: &HttpResponse) -> String {
    response.headers["audit-id"].to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_log_has_user_and_request_but_no_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("audit.log");
    let server = TestServer::start(&["--audit-log-path", log.to_str().unwrap()]);
    let secret = r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"},"stringData":{"password":"hunter2"}}"#;
    let path = "/api/v1/namespaces/default/secrets";
    let created = server
        .send_request(ClientCredentials::Admin, Method::POST, path, secret)
        .await;
    assert_eq!(created.code, StatusCode::CREATED, "{}", created.text());
    let line = &audited(&log, &id(&created), 1).await[0];
    assert_eq!(line["kind"], "Event");
    assert_eq!(line["apiVersion"], "audit.k8s.io/v1");
    assert_eq!(line["level"], "Metadata");
    assert_eq!(line["stage"], "ResponseComplete");
    assert_eq!(line["verb"], "create");
    assert_eq!(line["requestURI"], path);
    assert_eq!(line["user"]["username"], "kubernetes-admin");
    assert_eq!(line["sourceIPs"][0], "127.0.0.1");
    assert_eq!(line["objectRef"]["resource"], "secrets");
    assert_eq!(line["objectRef"]["namespace"], "default");
    assert_eq!(line["objectRef"]["apiVersion"], "v1");
    assert_eq!(line["responseStatus"]["code"], 201);
    assert_eq!(
        line["annotations"]["authorization.k8s.io/decision"],
        "allow"
    );
    // RFC 3339 with microseconds and Z: 2026-01-01T00:00:00.000000Z.
    assert_eq!(line["requestReceivedTimestamp"].as_str().unwrap().len(), 27);

    let refused = server
        .send_request(ClientCredentials::Token(NOBODY), Method::GET, path, "")
        .await;
    let line = &audited(&log, &id(&refused), 1).await[0];
    assert_eq!(line["user"]["username"], "nobody");
    assert_eq!(
        line["annotations"]["authorization.k8s.io/decision"],
        "forbid"
    );
    assert_eq!(line["responseStatus"]["reason"], "Forbidden");

    let mut client = server.http1(ClientCredentials::Admin).await;
    let mut request = client.request(Method::GET, "/api/v1/pods", "");
    request
        .headers_mut()
        .insert("impersonate-user", "ann".parse().unwrap());
    request
        .headers_mut()
        .insert("audit-id", "chosen-by-the-client".parse().unwrap());
    let acted = HttpResponse::read(client.send(request).await.unwrap()).await;
    assert_eq!(id(&acted), "chosen-by-the-client");
    let line = &audited(&log, "chosen-by-the-client", 1).await[0];
    assert_eq!(line["user"]["username"], "kubernetes-admin");
    assert_eq!(line["impersonatedUser"]["username"], "ann");

    let watched = server.get("/api/v1/pods?watch=true&timeoutSeconds=1").await;
    let stages: Vec<Value> = audited(&log, &id(&watched), 2)
        .await
        .iter()
        .map(|line| line["stage"].clone())
        .collect();
    assert_eq!(stages, ["ResponseStarted", "ResponseComplete"]);
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(!text.contains("hunter2") && !text.contains(NOBODY));
}

/// A server with an audit policy, and its log.
struct AuditedServer {
    server: TestServer,
    log: PathBuf,
    _directory: TempDir,
}

impl AuditedServer {
    fn start(rules: &str) -> AuditedServer {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("audit.log");
        let policy = directory.path().join("policy.yaml");
        let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{rules}\n");
        std::fs::write(&policy, text).unwrap();
        let server = TestServer::start(&[
            "--audit-log-path",
            log.to_str().unwrap(),
            "--audit-policy-file",
            policy.to_str().unwrap(),
        ]);
        AuditedServer {
            server,
            log,
            _directory: directory,
        }
    }

    /// The response, and the last log line of the request.
    async fn send_request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: impl Into<Bytes>,
    ) -> (HttpResponse, Value) {
        let mut client = self.server.http1(ClientCredentials::Admin).await;
        let mut request = client.request(method, path, "");
        for &(name, value) in headers {
            let value = value.parse().unwrap();
            request.headers_mut().insert(name, value);
        }
        *request.body_mut() = Full::new(body.into());
        let response = HttpResponse::read(client.send(request).await.unwrap()).await;
        let line = self.last_line(&response).await;
        (response, line)
    }

    async fn last_line(&self, response: &HttpResponse) -> Value {
        let id = id(response);
        for _ in 0..200 {
            let mut lines = audit_lines(&self.log);
            lines.retain(|line| line["auditID"] == id && line["stage"] == "ResponseComplete");
            if let Some(line) = lines.pop() {
                return line;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the audit log has no last line for {id}");
    }
}

const JSON: (&str, &str) = ("content-type", "application/json");
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Runs all verbs at a level. `is_answer_logged` is true if the level includes responses.
async fn check_verbs(level: &str, is_answer_logged: bool) {
    let audited = AuditedServer::start(&format!("rules: [{{level: {level}}}]"));
    let path = format!("{CONFIG_MAPS}/a");
    let check = |line: &Value, response: &HttpResponse, request: Value| {
        assert_eq!(line["level"], level);
        assert_eq!(line["requestObject"], request);
        let expect = match is_answer_logged {
            true => response.json(),
            false => Value::Null,
        };
        assert_eq!(line["responseObject"], expect);
    };
    // The body lacks type and defaults, and has an unknown field.
    let sent = r#"{"metadata":{"name":"a"},"data":{"k":"v"},"unknown":1}"#;
    let mut object = json!({"kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": "a"}, "data": {"k": "v"}});
    let (created, line) = audited
        .send_request(Method::POST, CONFIG_MAPS, &[JSON], sent)
        .await;
    assert_eq!(created.code, StatusCode::CREATED);
    check(&line, &created, object.clone());

    object["data"]["k"] = "w".into();
    let yaml = "metadata:\n  name: a\ndata:\n  k: w\n";
    let media = [("content-type", "application/yaml")];
    let (put, line) = audited.send_request(Method::PUT, &path, &media, yaml).await;
    assert_eq!(put.code, StatusCode::OK);
    check(&line, &put, object);

    let patch = "{\n  \"data\": {\"k\": null}\n}\n";
    let (patched, line) = audited
        .send_request(Method::PATCH, &path, &[MERGE], patch)
        .await;
    assert_eq!(patched.code, StatusCode::OK);
    check(&line, &patched, json!({"data": {"k": null}}));

    let (broken, line) = audited
        .send_request(Method::PATCH, &path, &[MERGE], "{\"data\":")
        .await;
    assert_eq!(broken.code, StatusCode::BAD_REQUEST);
    check(&line, &broken, "{\"data\":".into());

    // Like upstream, the logged request object is defaulted.
    let secrets = "/api/v1/namespaces/default/secrets";
    let sent = r#"{"metadata":{"name":"s"}}"#;
    let (created, line) = audited
        .send_request(Method::POST, secrets, &[JSON], sent)
        .await;
    let object = json!({"kind": "Secret", "apiVersion": "v1",
        "metadata": {"name": "s"}, "type": "Opaque"});
    check(&line, &created, object);

    let (read, line) = audited.send_request(Method::GET, &path, &[], "").await;
    check(&line, &read, Value::Null);
    let (list, line) = audited
        .send_request(Method::GET, CONFIG_MAPS, &[], "")
        .await;
    check(&line, &list, Value::Null);
    // The log does not contain the line breaks of pretty-printing.
    let pretty = format!("{CONFIG_MAPS}?pretty=true");
    let (list, line) = audited.send_request(Method::GET, &pretty, &[], "").await;
    check(&line, &list, Value::Null);

    let options = r#"{"propagationPolicy":"Background"}"#;
    let (gone, line) = audited
        .send_request(Method::DELETE, &path, &[JSON], options)
        .await;
    assert_eq!(gone.code, StatusCode::OK);
    let options = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1",
        "propagationPolicy": "Background"});
    check(&line, &gone, options);
    let (missing, line) = audited.send_request(Method::DELETE, &path, &[], "").await;
    assert_eq!(missing.code, StatusCode::NOT_FOUND);
    check(&line, &missing, Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn level_request_logs_the_request_body() {
    check_verbs("Request", false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn level_request_response_logs_both_bodies() {
    check_verbs("RequestResponse", true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_in_protobuf_and_yaml_are_logged_as_json() {
    let audited = AuditedServer::start("rules: [{level: RequestResponse}]");
    let body = config_map("a");
    let yaml = [JSON, ("accept", "application/yaml")];
    let (created, line) = audited
        .send_request(Method::POST, CONFIG_MAPS, &yaml, body)
        .await;
    assert!(created.text().contains("kind: ConfigMap"));
    assert_eq!(line["responseObject"]["metadata"]["name"], "a");

    let path = format!("{CONFIG_MAPS}/a");
    let json = audited.server.get(&path).await.json();
    let accept = ("accept", PROTOBUF);
    let (read, line) = audited
        .send_request(Method::GET, &path, &[accept], "")
        .await;
    assert!(read.body.starts_with(b"k8s\0"));
    assert_eq!(line["responseObject"], json);

    let both = [accept, ("content-type", PROTOBUF)];
    let (put, line) = audited
        .send_request(Method::PUT, &path, &both, read.body.clone())
        .await;
    assert_eq!(put.code, StatusCode::OK);
    assert_eq!(line["requestObject"], json);
    assert_eq!(line["responseObject"], json);

    let (_, line) = audited
        .send_request(Method::GET, CONFIG_MAPS, &[accept], "")
        .await;
    assert_eq!(line["responseObject"]["kind"], "ConfigMapList");
    let items = line["responseObject"]["items"].as_array().unwrap();
    assert!(items.iter().any(|item| item["metadata"]["name"] == "a"));

    let (gone, line) = audited
        .send_request(Method::DELETE, &path, &[accept], "")
        .await;
    assert!(gone.body.starts_with(b"k8s\0"));
    assert_eq!(line["responseObject"]["kind"], "Status");
    assert_eq!(line["responseObject"]["status"], "Success");
    let (missing, line) = audited
        .send_request(Method::GET, &path, &[accept], "")
        .await;
    assert!(missing.body.starts_with(b"k8s\0"));
    assert_eq!(line["responseObject"]["details"]["name"], "a");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn response_bodies_of_watches_and_documents_are_not_logged_but_errors_are() {
    let audited = AuditedServer::start("rules: [{level: RequestResponse}]");
    let watch = format!(
        "{CONFIG_MAPS}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"
    );
    let (watched, line) = audited.send_request(Method::GET, &watch, &[], "").await;
    assert!(watched.text().contains("ConfigMap"));
    assert_eq!(line["level"], "RequestResponse");
    assert_eq!(line.get("responseObject"), None);
    let (_, line) = audited.send_request(Method::GET, "/version", &[], "").await;
    assert_eq!(line.get("responseObject"), None);
    let (groups, line) = audited.send_request(Method::GET, "/apis", &[], "").await;
    assert_eq!(line["responseObject"], groups.json());

    let refused = audited
        .server
        .send_request(
            ClientCredentials::Token(NOBODY),
            Method::POST,
            CONFIG_MAPS,
            &config_map("a"),
        )
        .await;
    assert_eq!(refused.code, StatusCode::FORBIDDEN);
    let line = audited.last_line(&refused).await;
    assert_eq!(line["responseObject"], refused.json());
    assert_eq!(line["responseObject"]["reason"], "Forbidden");
    // The body of an unauthorized write is not read.
    assert_eq!(line.get("requestObject"), None);
    let unknown = audited
        .server
        .send_request(
            ClientCredentials::Token("nobody-knows"),
            Method::GET,
            CONFIG_MAPS,
            "",
        )
        .await;
    let line = audited.last_line(&unknown).await;
    assert_eq!(line["responseObject"]["code"], 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn audit_rules_select_the_level() {
    let audited = AuditedServer::start(
        r#"omitManagedFields: true
rules:
- level: None
  resources: [{group: "", resources: ["pods"]}]
- level: Metadata
  resources: [{group: "", resources: ["secrets"]}]
- level: Request
  omitManagedFields: false
  verbs: ["update"]
- level: RequestResponse"#,
    );
    let secret = r#"{"metadata":{"name":"s"},"stringData":{"password":"hunter2"}}"#;
    let secrets = "/api/v1/namespaces/default/secrets";
    let (created, line) = audited
        .send_request(Method::POST, secrets, &[JSON], secret)
        .await;
    assert_eq!(created.code, StatusCode::CREATED);
    assert_eq!(line["level"], "Metadata");
    for name in ["requestObject", "responseObject"] {
        assert_eq!(line.get(name), None);
    }

    let sent = r#"{"metadata":{"name":"a","managedFields":[{"manager":"me"}]},"data":{"k":"v"}}"#;
    let (created, line) = audited
        .send_request(Method::POST, CONFIG_MAPS, &[JSON], sent)
        .await;
    assert_eq!(created.code, StatusCode::CREATED);
    assert_eq!(line["requestObject"]["metadata"], json!({"name": "a"}));
    assert_eq!(line["responseObject"]["data"]["k"], "v");
    let path = format!("{CONFIG_MAPS}/a");
    let (_, line) = audited
        .send_request(Method::PUT, &path, &[JSON], sent)
        .await;
    assert_eq!(line["level"], "Request");
    let managed = &line["requestObject"]["metadata"]["managedFields"];
    assert_eq!(managed[0]["manager"], "me");

    let pods = audited.server.get("/api/v1/pods").await;
    // Lines are written in order, so lines of the pods would be present by now.
    audited.send_request(Method::GET, &path, &[], "").await;
    let lines = audit_lines(&audited.log);
    assert!(lines.iter().all(|line| line["auditID"] != id(&pods)));
    let text = std::fs::read_to_string(&audited.log).unwrap();
    assert!(!text.contains("hunter2"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_bodies_are_logged_completely_and_endless_responses_omitted() {
    const DATA_BYTES: usize = 900 * 1024;
    let audited = AuditedServer::start("rules: [{level: RequestResponse}]");
    for name in ["a", "b", "c"] {
        let data = "x".repeat(DATA_BYTES);
        let sent = json!({"metadata": {"name": name}, "data": {"k": data}}).to_string();
        let (created, line) = audited
            .send_request(Method::POST, CONFIG_MAPS, &[JSON], sent)
            .await;
        assert_eq!(created.code, StatusCode::CREATED);
        assert_eq!(line["requestObject"]["data"]["k"], data);
        assert_eq!(line["responseObject"]["data"]["k"], data);
    }
    let (list, line) = audited
        .send_request(Method::GET, CONFIG_MAPS, &[], "")
        .await;
    assert!(list.body.len() < 3 * 1024 * 1024);
    assert_eq!(line["responseObject"], list.json());
    let fourth = json!({"metadata": {"name": "d"}, "data": {"k": "x".repeat(DATA_BYTES)}});
    let (created, _) = audited
        .send_request(Method::POST, CONFIG_MAPS, &[JSON], fourth.to_string())
        .await;
    assert_eq!(created.code, StatusCode::CREATED);
    for accept in ["application/json", "application/yaml", PROTOBUF] {
        let accept = [("accept", accept)];
        let (list, line) = audited
            .send_request(Method::GET, CONFIG_MAPS, &accept, "")
            .await;
        assert!(list.body.len() > 3 * 1024 * 1024);
        assert_eq!(line.get("responseObject"), None);
        assert_eq!(line["annotations"]["audit.k8s.io/truncated"], "true");
    }
}
