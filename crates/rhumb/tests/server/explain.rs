//! `rhumb admission explain`, from files and from a running server.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use http::Method;
use serde_json::{Value, json};

use crate::program::kubeconfig;
use crate::support::{ClientCredentials, TestServer};

const HOOKS: &str = r#"
apiVersion: v1
kind: List
items:
- apiVersion: admissionregistration.k8s.io/v1
  kind: MutatingWebhookConfiguration
  metadata: {name: sidecars}
  webhooks:
  - name: inject.example.com
    sideEffects: NoneOnDryRun
    admissionReviewVersions: [v1]
    clientConfig: {url: "https://127.0.0.1:1/"}
    timeoutSeconds: 3
    failurePolicy: Ignore
    namespaceSelector: {matchLabels: {inject: "yes"}}
    rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: labels}
webhooks:
- name: labels.example.com
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"]}]
  # As the proposal spells it.
  exclusionRules:
  - {resources: [configmaps], objectNames: [web]}
  - {Namespaces: [kube-system]}
  - {resources: ["*/scale"]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: few-replicas}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  matchConditions: [{name: many, expression: "object.spec.replicas > 1"}]
  validations: [{expression: "object.spec.replicas < 5"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: few-replicas}
spec: {policyName: few-replicas, validationActions: [Deny]}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {inject: "yes"}}
"#;

/// A directory with input files for the command.
pub(crate) struct ExplainHarness(tempfile::TempDir);

impl ExplainHarness {
    pub(crate) fn new() -> ExplainHarness {
        let files = ExplainHarness(tempfile::tempdir().unwrap());
        files.write("hooks.yaml", HOOKS);
        files
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Explains a request about an object, with flags.
    pub(crate) fn run(&self, object: &str, flags: &str) -> Output {
        let object = self.write("object.yaml", object);
        let hooks = self.0.path().join("hooks.yaml");
        let mut command = explain(&object);
        command.args(flags.split_whitespace());
        command.arg("--configurations").arg(hooks);
        command.output().unwrap()
    }

    /// The table's verdict of each participant, by name.
    pub(crate) fn verdicts(&self, object: &str, flags: &str) -> Vec<String> {
        let output = self.run(object, &format!("{flags} -o json"));
        let explained: Value = serde_json::from_str(&success(output)).unwrap();
        verdicts(&explained)
    }
}

fn explain(object: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rhumb"));
    command.args(["admission", "explain", "-f"]).arg(object);
    command
}

fn success(output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn verdicts(explained: &Value) -> Vec<String> {
    let text = |it: &Value, name: &str| it[name].as_str().unwrap_or_default().to_owned();
    let shown = |it: &Value| {
        let rule = it["rule"]
            .as_u64()
            .map_or(String::new(), |rule| format!(" {rule}"));
        format!(
            "{} {}{rule}",
            text(it, "configuration"),
            text(it, "verdict")
        )
    };
    let participants = explained["participants"].as_array().unwrap();
    participants.iter().map(shown).collect()
}

pub(crate) fn pod(namespace: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: web, namespace: {namespace}}}, \
         spec: {{containers: [{{name: c, image: i}}]}}}}"
    )
}

fn deployment(replicas: &str) -> String {
    format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{{replicas}}}}}"
    )
}

#[test]
fn table_lists_participants_in_call_order_with_verdicts() {
    let files = ExplainHarness::new();
    let table = success(files.run(&pod("shop"), ""));
    assert_eq!(
        table,
        "CREATE pods web in shop, by kubernetes-admin\n\
         \n\
         ORDER  PHASE               CONFIGURATION  WEBHOOK OR BINDING  ON FAILURE  TIMEOUT  VERDICT\n\
         1      mutating webhook    sidecars       inject.example.com  Ignore      3s       called\n\
         -      validating policy   few-replicas   -                   Fail        -        no rule matches\n\
         2      validating webhook  labels         labels.example.com  Fail        10s      called\n\
         \n\
         2 of 3 called\n"
    );
    let table = success(files.run(&pod("kube-system"), ""));
    assert!(
        table.contains("excluded by excludeResourceRules[1]: {\"namespaces\":[\"kube-system\"]}"),
        "{table}"
    );
    assert!(
        table.contains("note: the namespace \"kube-system\" is not known"),
        "{table}"
    );
}

#[test]
fn a_rejection_by_a_match_condition_has_a_place_in_the_order() {
    let files = ExplainHarness::new();
    let failing = "matchConditions: [{name: c, expression: 'object.spec.nothing == 1'}]\n";
    let hooks = HOOKS.replace(
        "  # As the proposal",
        &format!("  {failing}  # As the proposal"),
    );
    files.write("hooks.yaml", &hooks);
    let table = success(files.run(&pod("shop"), ""));
    assert!(
        table.contains(
            "2      validating webhook  labels         labels.example.com  Fail        10s      rejects the request: \
             expression 'object.spec.nothing == 1' resulted in error: no such key: nothing\n"
        ),
        "{table}"
    );
    assert!(
        table.ends_with(
            "1 of 3 called\nthe request is rejected by labels/labels.example.com; later phases are not reached\n"
        ),
        "{table}"
    );
    let name = "- name: labels.example.com\n";
    let ignored = hooks.replace(name, &format!("{name}  failurePolicy: Ignore\n"));
    files.write("hooks.yaml", &ignored);
    assert_eq!(
        files.verdicts(&pod("shop"), ""),
        ["sidecars Called", "few-replicas NoRule", "labels Fails"]
    );
}

#[test]
fn request_attributes_decide_the_verdicts() {
    let files = ExplainHarness::new();
    let table: &[(&str, &str, &[&str])] = &[
        (
            &pod("shop"),
            "--dry-run",
            &["sidecars Called", "few-replicas NoRule", "labels Called"],
        ),
        (
            &pod("shop"),
            "--operation DELETE",
            &["sidecars NoRule", "few-replicas NoRule", "labels Called"],
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}",
            "-n shop",
            &[
                "sidecars NoRule",
                "few-replicas NoRule",
                "labels Excluded 0",
            ],
        ),
        // A generated name matches no rule by name.
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: web}}",
            "-n shop",
            &["sidecars NoRule", "few-replicas NoRule", "labels Called"],
        ),
        // The object is defaulted: replicas is 1.
        (
            &deployment(""),
            "-n shop",
            &["sidecars NoRule", "few-replicas Condition", "labels Called"],
        ),
        (
            &deployment("replicas: 3"),
            "-n shop",
            &["sidecars NoRule", "few-replicas Called", "labels Called"],
        ),
        (
            "{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: web}}",
            "-n shop --operation UPDATE --subresource scale --resource deployments.apps",
            &[
                "sidecars NoRule",
                "few-replicas NoRule",
                "labels Excluded 2",
            ],
        ),
        (
            "{apiVersion: policy/v1, kind: Eviction, metadata: {name: web}}",
            "-n shop --subresource eviction",
            &["sidecars NoRule", "few-replicas NoRule", "labels Called"],
        ),
        // Not by the name of the object in the file.
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}",
            "-n shop --operation DELETECOLLECTION",
            &["sidecars NoRule", "few-replicas NoRule", "labels Called"],
        ),
        (
            &pod("shop"),
            "--operation CONNECT --subresource portforward",
            &["sidecars NoRule", "few-replicas NoRule", "labels Called"],
        ),
        // A namespace is matched by its own labels, and has its own name as namespace, also on create.
        (
            "{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}",
            "",
            &["sidecars NoRule", "few-replicas NoRule", "labels Called"],
        ),
        (
            "{apiVersion: v1, kind: Node, metadata: {name: one}}",
            "",
            &["sidecars NoRule", "few-replicas NoRule", "labels Called"],
        ),
        (
            "{apiVersion: example.com/v1, kind: Widget, metadata: {name: one}}",
            "--resource widgets.example.com -n shop",
            &["sidecars NoRule", "few-replicas NoRule", "labels Called"],
        ),
        // No webhook is called for webhook configurations.
        (
            "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: x}}",
            "",
            &["sidecars Exempt", "few-replicas NoRule", "labels Exempt"],
        ),
    ];
    for (object, flags, want) in table {
        let got = files.verdicts(object, flags);
        assert_eq!(got, *want, "{object} {flags}");
    }
}

#[test]
fn invalid_input_is_reported() {
    let files = ExplainHarness::new();
    let broken = HOOKS.replace("namespaceSelector:", "namespaceSelecter:");
    let broken = files.write("broken.yaml", &broken);
    let other = files.write("other.yaml", &pod("x"));
    let with = |path: &Path| format!("--configurations {}", path.display());
    let table: &[(&str, String, &str)] = &[
        ("", String::new(), "object.yaml: there is no object in it"),
        ("[1, 2", String::new(), "object.yaml: yaml: "),
        (
            "[1, 2]",
            String::new(),
            "object.yaml: not an object with apiVersion and kind",
        ),
        (
            "{kind: Pod}",
            String::new(),
            "object.yaml: apiVersion is missing",
        ),
        (
            "{apiVersion: v1, kind: Pod}\n---\n{apiVersion: v1, kind: Pod}",
            String::new(),
            "there are 2 objects",
        ),
        (
            "{apiVersion: v1, kind: Pot}",
            String::new(),
            "there is no built-in kind Pot",
        ),
        (
            "{apiVersion: v2, kind: Pod}",
            String::new(),
            "there is no version \"v2\" of Pod; there is v1",
        ),
        (
            "{apiVersion: v1, kind: Pod, metadata: 5}",
            String::new(),
            "the object cannot be read",
        ),
        (
            &pod("shop"),
            "--subresource nope".to_owned(),
            "pods have no subresource \"nope\"",
        ),
        (
            &pod("shop"),
            "--subresource eviction".to_owned(),
            "is a Eviction, not a Pod",
        ),
        (
            &pod("shop"),
            "--resource nodes".to_owned(),
            "not sent to --resource nodes, but to pods",
        ),
        (
            &pod("shop"),
            "-n other".to_owned(),
            "--namespace says \"other\"",
        ),
        (&pod("shop"), "--operation READ".to_owned(), "READ"),
        (
            "{apiVersion: v1, kind: Pod}",
            "--operation DELETE".to_owned(),
            "the object needs a metadata.name for DELETE",
        ),
        (
            "{apiVersion: v1, kind: Node, metadata: {name: one, namespace: x}}",
            String::new(),
            "nodes are not in namespaces",
        ),
        (
            "{apiVersion: autoscaling/v1, kind: Scale, metadata: {name: web}}",
            "--subresource scale".to_owned(),
            "choose one with --resource: replicationcontrollers, deployments.apps",
        ),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}",
            "--operation CONNECT".to_owned(),
            "configmaps does not support CONNECT; set --operation to CREATE or UPDATE or DELETE",
        ),
        (
            &pod("shop"),
            "--subresource status".to_owned(),
            "pods/status does not support CREATE; set --operation to UPDATE",
        ),
        (
            &pod("shop"),
            "--subresource log".to_owned(),
            "requests for pods/log are not subject to admission",
        ),
        (
            "{apiVersion: policy/v1, kind: Eviction, metadata: {name: web}}",
            String::new(),
            "Eviction is sent to a subresource: add --resource pods --subresource eviction",
        ),
        (
            "{apiVersion: authentication.k8s.io/v1, kind: TokenReview}",
            "--operation DELETECOLLECTION".to_owned(),
            "tokenreviews cannot be deleted as a collection",
        ),
        (
            &pod("shop"),
            with(
                &files.write(
                    "invalid.yaml",
                    &HOOKS
                        .replace("timeoutSeconds: 3", "timeoutSeconds: 31")
                        .replace("NoneOnDryRun", "Some"),
                ),
            ),
            "invalid.yaml, document 1, item 1: webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \
             \"None\", \"NoneOnDryRun\"; webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be \
             between 1 and 30 seconds",
        ),
        (
            &pod("shop"),
            with(&broken),
            "broken.yaml, document 1, item 1: unknown field \"webhooks[0].namespaceSelecter\"",
        ),
        (
            &pod("shop"),
            with(&other),
            "other.yaml: there is no webhook configuration",
        ),
        (
            &pod("shop"),
            with(Path::new("/no/such/file")),
            "/no/such/file",
        ),
    ];
    for (object, flags, want) in table {
        let output = files.run(object, flags);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{object} {flags}: {errors}");
        assert!(errors.contains(want), "{object} {flags}: {errors}");
        if errors.starts_with("rhumb: ") {
            assert_eq!(errors.trim_end().lines().count(), 1, "{errors}");
        }
    }
}

#[tokio::test]
async fn configurations_are_read_from_a_running_server() {
    let server = TestServer::start(&[]);
    let notes = Value::Null;
    explained_by(
        &server,
        &[("shop", "labels Excluded 0"), ("default", "labels Called")],
        &notes,
    )
    .await;
}

#[tokio::test]
async fn exclusion_rules_are_ignored_if_the_server_has_the_gate_off() {
    let server = TestServer::start(&["--feature-gates=AdmissionWebhookExclusionRules=false"]);
    let notes = json!(["the server does not look at excludeResourceRules"]);
    explained_by(
        &server,
        &[("shop", "labels Called"), ("default", "labels Called")],
        &notes,
    )
    .await;
}

/// Registers a webhook on a server and compares the verdicts for pods in some namespaces.
async fn explained_by(server: &TestServer, table: &[(&str, &str)], notes: &Value) {
    let group = "/apis/admissionregistration.k8s.io/v1";
    let create = [
        (
            "/api/v1/namespaces".to_owned(),
            json!({"metadata": {"name": "shop", "labels": {"checked": "no"}}}),
        ),
        (
            format!("{group}/validatingwebhookconfigurations"),
            json!({"metadata": {"name": "labels"}, "webhooks": [{
                "name": "labels.example.com",
                "sideEffects": "None",
                "failurePolicy": "Ignore",
                "timeoutSeconds": 1,
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [{"apiGroups": [""], "apiVersions": ["*"], "operations": ["*"], "resources": ["pods"]}],
                "excludeResourceRules": [{"namespaceSelector": {"matchLabels": {"checked": "no"}}}],
            }]}),
        ),
    ];
    for (path, body) in create {
        let response = server
            .send_request(
                ClientCredentials::Admin,
                Method::POST,
                &path,
                &body.to_string(),
            )
            .await;
        assert_eq!(response.code, 201, "{}", response.text());
    }
    let files = ExplainHarness::new();
    for (namespace, want) in table {
        let object = files.write("object.yaml", &pod(namespace));
        let mut command = explain(&object);
        command.args(["-o", "json", "--kubeconfig"]);
        command.arg(kubeconfig(server.directory.path()));
        let explained: Value = serde_json::from_str(&success(command.output().unwrap())).unwrap();
        assert_eq!(verdicts(&explained), [*want], "{namespace}");
        assert_eq!(&explained["notes"], notes, "{namespace}");
    }
}
