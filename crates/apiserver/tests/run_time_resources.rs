//! A resource that is added to a running server with its own schema table and cache, used, and removed again.

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rhumb_api::{Kind, ResourceScope, SelectableField};
use rhumb_registry::KindSet;
use rhumb_schema::{ObjectDefaulter, SchemaRef, Table, TableBuilder};
use rhumb_server::ConnectionLimits;
use serde_json::{Value, json};
use support::RunningTestServer;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Timeout of every wait; far longer than any step takes.
const TIMEOUT: Duration = Duration::from_secs(30);

const GROUP: &str = "example.com";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const OPENAPI: &str = "/openapi/v3/apis/example.com/v1";

/// The names are not static, like those of a CustomResourceDefinition.
fn widgets(description: &str) -> KindSet {
    let group = String::from(GROUP);
    let mut builder = TableBuilder::new();
    let types = "com.example.v1.Widget v1.Widget\n \
        apiVersion 0 o string\n \
        kind 0 o string\n \
        metadata 0 o io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta\n \
        spec 0 o com.example.v1.WidgetSpec\n\
        com.example.v1.WidgetSpec v1.WidgetSpec\n \
        color 0 o string default=\"red\"\n \
        size 0 o int64\n";
    builder.extend(types).expect("a valid table");
    let metadata = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    let metadata = SchemaRef::find(Table::builtin(), metadata).expect("a built-in type");
    builder.import(metadata.table(), metadata.id());
    let table = Arc::new(builder.build().expect("a complete table"));
    let mut kind = Kind::new(
        ResourceScope::Namespaced,
        group.clone(),
        String::from("v1"),
        String::from("Widget"),
        String::from("widgets"),
        String::from("com.example.v1.Widget"),
    )
    .short_names(&["wd"])
    .category(String::from("toys"))
    .storage(format!("{group}/widgets"));
    kind.selectable = vec![SelectableField::string("spec.color", "spec.color")];
    kind.indexed = vec![String::from("spec.color").into()];
    let schema = json!({"type": "object", "description": description});
    KindSet {
        kinds: vec![kind],
        defaults: Arc::new(ObjectDefaulter::new(&table, []).expect("no functions")),
        table,
        openapi_schemas: Arc::new(BTreeMap::from([(
            "com.example.v1.Widget".to_owned(),
            Arc::new(schema),
        )])),
    }
}

/// Sends a request; the connection is closed after the response.
async fn send(
    server: &RunningTestServer,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> TlsStream<TcpStream> {
    let mut stream = server.connect().await.expect("connected");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\
         Connection: close\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.expect("sent");
    stream
}

/// The status code and the body of a response, as JSON if it is.
async fn request(
    server: &RunningTestServer,
    method: &str,
    path: &str,
    body: &Value,
) -> (u16, Value) {
    let (media, body) = match (method, body) {
        (_, Value::Null) => ("", String::new()),
        ("PATCH", body) => (
            "Content-Type: application/merge-patch+json\r\n",
            body.to_string(),
        ),
        (_, body) => ("Content-Type: application/json\r\n", body.to_string()),
    };
    let headers = format!("Accept: application/json\r\n{media}");
    let mut stream = send(server, method, path, &headers, &body).await;
    let mut response = Vec::new();
    tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut response))
        .await
        .expect("a response in time")
        .expect("readable");
    let response = String::from_utf8(response).expect("text");
    let (head, body) = response.split_once("\r\n\r\n").expect("a head");
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let is_chunked = head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked");
    let body = if is_chunked {
        joined_chunks(body)
    } else {
        body.to_owned()
    };
    let value = serde_json::from_str(&body).unwrap_or(Value::String(body));
    (code.expect("a status code"), value)
}

fn joined_chunks(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a chunk size");
        body.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
    }
    body
}

async fn get(server: &RunningTestServer, path: &str) -> (u16, Value) {
    request(server, "GET", path, &Value::Null).await
}

fn widget(name: &str) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"size": 3, "unknown": true},
    })
}

/// A watch over HTTP.
struct HttpWatch(BufReader<TlsStream<TcpStream>>);

impl HttpWatch {
    async fn open(server: &RunningTestServer, query: &str) -> HttpWatch {
        let path = format!("{WIDGETS}?watch=1&{query}");
        HttpWatch(BufReader::new(send(server, "GET", &path, "", "").await))
    }

    /// The next event as `ADDED a`; `None` when the watch has ended.
    async fn next(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            let read = tokio::time::timeout(TIMEOUT, self.0.read_line(&mut line)).await;
            if read.expect("a line in time").expect("readable") == 0 {
                return None;
            }
            // Other lines are of the head, or sizes of chunks.
            if let Ok(event) = serde_json::from_str::<Value>(&line)
                && event.is_object()
            {
                let (kind, name) = (&event["type"], &event["object"]["metadata"]["name"]);
                return Some(format!(
                    "{} {}",
                    kind.as_str().expect("a type"),
                    name.as_str().expect("a name")
                ));
            }
        }
    }
}

async fn is_discovered(server: &RunningTestServer) -> bool {
    let (_, groups) = get(server, "/apis").await;
    let in_groups = groups["groups"]
        .as_array()
        .is_some_and(|all| all.iter().any(|group| group["name"] == GROUP));
    let (code, list) = get(server, "/apis/example.com/v1").await;
    assert_eq!(in_groups, code == 200, "{list}");
    if in_groups {
        let entry = &list["resources"][0];
        assert_eq!(
            (&entry["name"], &entry["kind"]),
            (&json!("widgets"), &json!("Widget"))
        );
        assert_eq!(entry["shortNames"], json!(["wd"]));
    }
    in_groups
}

async fn used_widgets(server: &RunningTestServer) -> Value {
    let (code, quota) = get(server, "/api/v1/namespaces/default/resourcequotas/q").await;
    assert_eq!(code, 200, "{quota}");
    quota["status"]["used"]["count/widgets.example.com"].clone()
}

#[tokio::test]
async fn a_resource_is_added_used_and_removed_while_the_server_runs() {
    let server = support::start(ConnectionLimits::default()).await;
    let registry = &server.state.registry;
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"count/widgets.example.com": "2"}},
    });
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let (code, response) = request(&server, "POST", quotas, &quota).await;
    assert_eq!(code, 201, "{response}");
    assert_eq!(get(&server, WIDGETS).await.0, 404);
    assert_eq!(get(&server, OPENAPI).await.0, 404);
    assert!(!is_discovered(&server).await);
    let (_, v2_before) = get(&server, "/openapi/v2").await;

    let set = widgets("The first.");
    let table: Weak<Table> = Arc::downgrade(&set.table);
    registry.add_resources(set).await.expect("added");
    let again = registry.add_resources(widgets("Twice.")).await;
    assert!(again.is_err_and(|error| error.reason.contains("is served already")));
    assert!(is_discovered(&server).await);
    let (code, document) = get(&server, OPENAPI).await;
    assert_eq!(code, 200);
    let schema = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(schema["description"], "The first.");
    let (_, v2) = get(&server, "/openapi/v2").await;
    assert!(v2["paths"][WIDGETS.replace("default", "{namespace}")].is_object());
    assert!(v2_before["definitions"]["com.example.v1.Widget"].is_null());

    let mut watch = HttpWatch::open(&server, "fieldSelector=spec.color%3Dred").await;
    let (code, created) = request(&server, "POST", WIDGETS, &widget("a")).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["spec"], json!({"color": "red", "size": 3}));
    assert_eq!(watch.next().await.as_deref(), Some("ADDED a"));
    assert_eq!(used_widgets(&server).await, "1");
    assert_eq!(request(&server, "POST", WIDGETS, &widget("b")).await.0, 201);
    assert_eq!(watch.next().await.as_deref(), Some("ADDED b"));
    let (code, denied) = request(&server, "POST", WIDGETS, &widget("c")).await;
    assert_eq!(code, 403, "{denied}");
    let patch = json!({"spec": {"color": "blue"}});
    let (code, patched) = request(&server, "PATCH", &format!("{WIDGETS}/a"), &patch).await;
    assert_eq!((code, &patched["spec"]["color"]), (200, &json!("blue")));
    assert_eq!(watch.next().await.as_deref(), Some("DELETED a"));
    let (_, got) = get(&server, &format!("{WIDGETS}/a")).await;
    assert_eq!(got["spec"], json!({"color": "blue", "size": 3}));
    let (_, list) = get(
        &server,
        &format!("{WIDGETS}?fieldSelector=spec.color%3Dred"),
    )
    .await;
    assert_eq!(list["kind"], "WidgetList");
    let items = list["items"].as_array().expect("items");
    let names: Vec<&Value> = items.iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["b"]);
    let (code, response) = request(&server, "DELETE", &format!("{WIDGETS}/b"), &Value::Null).await;
    assert_eq!(code, 200, "{response}");
    assert_eq!(watch.next().await.as_deref(), Some("DELETED b"));
    assert_eq!(used_widgets(&server).await, "1");

    assert!(registry.remove_resource(GROUP, "widgets").await);
    assert!(!registry.remove_resource(GROUP, "widgets").await);
    assert_eq!(watch.next().await, None);
    assert_eq!(get(&server, &format!("{WIDGETS}/a")).await.0, 404);
    assert_eq!(get(&server, OPENAPI).await.0, 404);
    assert!(!is_discovered(&server).await);
    assert_eq!(get(&server, "/openapi/v2").await.1, v2_before);
    let since = Instant::now();
    while table.strong_count() > 0 {
        assert!(
            since.elapsed() < TIMEOUT,
            "the schema table is still in use"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    // Added again, its objects are there, and the documents are those of the new schema.
    registry
        .add_resources(widgets("The second."))
        .await
        .expect("added");
    let (code, got) = get(&server, &format!("{WIDGETS}/a")).await;
    assert_eq!(
        (code, &got["metadata"]["uid"]),
        (200, &created["metadata"]["uid"])
    );
    assert_eq!(used_widgets(&server).await, "1");
    let (_, document) = get(&server, OPENAPI).await;
    let schema = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(schema["description"], "The second.");
    assert!(
        !registry.remove_resource("", "pods").await,
        "pods are built in"
    );
}
