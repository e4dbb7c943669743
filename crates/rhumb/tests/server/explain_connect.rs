//! `rhumb admission explain` for CONNECT requests.

use crate::explain::{ExplainHarness, pod};

/// A server passes the options of a connection to webhooks and policies; the command does the same.
#[test]
fn connect_requests_have_their_options() {
    let files = ExplainHarness::new();
    let hook = |name: &str, more: &str| {
        format!(
            "- {{name: {name}.example.com, sideEffects: None, admissionReviewVersions: [v1], \
             clientConfig: {{url: 'https://127.0.0.1:1/'}}, {more}, \
             rules: [{{apiGroups: [''], apiVersions: [v1], operations: [CONNECT], resources: ['*/*']}}]}}\n"
        )
    };
    let condition =
        |expression: &str| format!("matchConditions: [{{name: c, expression: \"{expression}\"}}]");
    let hooks = [
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\n",
        "metadata: {name: connect}\nwebhooks:\n",
        &hook("kind", &condition("object.kind == request.kind.kind")),
        &hook("terminal", &condition("has(object.tty) && object.tty")),
        // Options have no metadata, so no selector matches them.
        &hook(
            "selector",
            "objectSelector: {matchExpressions: [{key: a, operator: DoesNotExist}]}",
        ),
    ];
    files.write("hooks.yaml", &hooks.concat());
    let service = "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}}";
    let node = "{apiVersion: v1, kind: Node, metadata: {name: one}}";
    let pod = pod("shop");
    for (object, subresource) in [
        (&*pod, "exec"),
        (&pod, "attach"),
        (&pod, "portforward"),
        (&pod, "proxy"),
        (service, "proxy"),
        (node, "proxy"),
    ] {
        let flags = format!("--operation CONNECT --subresource {subresource}");
        let expect = ["connect Called", "connect Condition", "connect OtherObject"];
        assert_eq!(files.verdicts(object, &flags), expect, "{object} {flags}");
    }
    let exec = |name: &str, options: &str| {
        let options = files.write(name, options);
        let options = options.display();
        format!("--operation CONNECT --subresource exec --connect-options {options}")
    };
    let flags = exec(
        "tty",
        "{apiVersion: v1, kind: PodExecOptions, tty: true, command: [sh]}",
    );
    let expect = ["connect Called", "connect Called", "connect OtherObject"];
    assert_eq!(files.verdicts(&pod, &flags), expect);

    let not_connect = exec("none", "").replace("CONNECT --subresource exec", "CREATE");
    for (object, flags, expect) in [
        (
            &*pod,
            exec("attach", "{apiVersion: v1, kind: PodAttachOptions}"),
            "--connect-options: kind is \"PodAttachOptions\"; the options of this request are of kind PodExecOptions in v1",
        ),
        (
            &pod,
            exec(
                "misspelt",
                "{apiVersion: v1, kind: PodExecOptions, terminal: true}",
            ),
            "--connect-options: unknown field \"terminal\"",
        ),
        (
            &pod,
            not_connect,
            "--connect-options is for --operation CONNECT",
        ),
        (
            "{apiVersion: v1, kind: PodExecOptions}",
            "--operation CONNECT --subresource exec".to_owned(),
            "PodExecOptions are the options of a connection: set -f to the object that is connected to",
        ),
    ] {
        let output = files.run(object, &flags);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags}: {errors}");
        assert!(errors.contains(expect), "{flags}: {errors}");
    }
}
