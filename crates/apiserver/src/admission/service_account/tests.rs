use http::Method;
use serde_json::json;

use super::*;
use crate::testing::{Server, Setup, object};

/// A pod, and what it is once the plugin has seen it.
struct Case {
    name: &'static str,
    spec: Value,
    want: Value,
}

const VOLUME: &str = "kube-api-access-00000";

fn token_volume(name: &str) -> Value {
    json!({"name": name, "projected": {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
            ]}},
        ],
    }})
}

fn token_mount() -> Value {
    json!({"name": VOLUME, "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"})
}

/// Makes the random part of the volume's name the same in all pods.
fn with_fixed_name(spec: &Value) -> Value {
    let text = spec.to_string();
    let random = text
        .split('"')
        .find(|word| word.starts_with("kube-api-access-"));
    let Some(random) = random else {
        return spec.clone();
    };
    assert_eq!(random.len(), VOLUME.len(), "{random}");
    serde_json::from_str(&text.replace(random, VOLUME)).expect("JSON")
}

/// What the plugin does to a pod whose account is there.
fn admit(spec: &Value, account: &Value) -> Result<Value, String> {
    let mut pod = object(json!({"metadata": {"name": "p"}, "spec": spec}));
    let mut account = object(account.clone());
    fields::set(&mut account, "metadata.name", "bot");
    set_default_account(&mut pod);
    complete(&mut pod, &account);
    secrets::check_pod(&pod, &account)?;
    let once = pod.clone();
    complete(&mut pod, &account);
    assert_eq!(pod, once, "asked again, it changes nothing");
    Ok(with_fixed_name(&pod["spec"]))
}

#[test]
fn pods_get_the_token_of_their_account() {
    let own_mount =
        json!([{"name": "own", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]);
    let cases = [
        Case {
            name: "all containers but those for debugging",
            spec: json!({
                "containers": [{"name": "a"}, {"name": "b", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
                "initContainers": [{"name": "i"}],
                "ephemeralContainers": [{"name": "e"}],
                "volumes": [{"name": "v", "emptyDir": {}}],
            }),
            want: json!({
                "serviceAccountName": "default", "serviceAccount": "default",
                "containers": [
                    {"name": "a", "volumeMounts": [token_mount()]},
                    {"name": "b", "volumeMounts": [{"name": "v", "mountPath": "/v"}, token_mount()]},
                ],
                "initContainers": [{"name": "i", "volumeMounts": [token_mount()]}],
                "ephemeralContainers": [{"name": "e"}],
                "volumes": [{"name": "v", "emptyDir": {}}, token_volume(VOLUME)],
            }),
        },
        Case {
            name: "a mount at that place is enough",
            spec: json!({
                "serviceAccountName": "bot", "serviceAccount": "bot",
                "containers": [{"volumeMounts": own_mount}], "initContainers": [{"volumeMounts": own_mount}],
            }),
            want: json!({
                "serviceAccountName": "bot", "serviceAccount": "bot",
                "containers": [{"volumeMounts": own_mount}], "initContainers": [{"volumeMounts": own_mount}],
            }),
        },
        Case {
            name: "a volume of that name is used",
            spec: json!({
                "serviceAccountName": "bot",
                "containers": [{}], "volumes": [{"name": VOLUME, "emptyDir": {}}],
            }),
            want: json!({
                "serviceAccountName": "bot",
                "containers": [{"volumeMounts": [token_mount()]}],
                "volumes": [{"name": VOLUME, "emptyDir": {}}],
            }),
        },
    ];
    for case in cases {
        let got = admit(&case.spec, &json!({}));
        assert_eq!(got, Ok(case.want), "{}", case.name);
    }
}

#[test]
fn the_pod_decides_before_its_account_whether_it_gets_a_token() {
    let table = [
        (None, None, true),
        (None, Some(false), false),
        (None, Some(true), true),
        (Some(false), Some(true), false),
        (Some(true), Some(false), true),
        (Some(false), None, false),
    ];
    for (of_pod, of_account, want) in table {
        let mut spec = json!({"containers": [{"name": "c"}]});
        let mut account = json!({});
        if let Some(wish) = of_pod {
            spec["automountServiceAccountToken"] = json!(wish);
        }
        if let Some(wish) = of_account {
            account["automountServiceAccountToken"] = json!(wish);
        }
        let got = admit(&spec, &account).expect("allowed");
        let has_token = got["volumes"] == json!([token_volume(VOLUME)]);
        assert_eq!(has_token, want, "{of_pod:?} {of_account:?}: {got}");
        let mounts = got["containers"][0]["volumeMounts"].is_array();
        assert_eq!(mounts, want, "{of_pod:?} {of_account:?}: {got}");
    }
}

/// A pod without a token, so that only the rest is seen.
fn bare(spec: Value) -> Value {
    let mut spec = spec;
    spec["automountServiceAccountToken"] = json!(false);
    spec["serviceAccountName"] = json!("bot");
    spec
}

#[test]
fn secrets_for_images_come_from_the_account_where_the_pod_has_none() {
    let account = json!({"imagePullSecrets": [{"name": "a"}, {"name": "b"}]});
    let table = [
        (json!({}), &account, json!([{"name": "a"}, {"name": "b"}])),
        (
            json!({"imagePullSecrets": []}),
            &account,
            json!([{"name": "a"}, {"name": "b"}]),
        ),
        (
            json!({"imagePullSecrets": [{"name": "own"}]}),
            &account,
            json!([{"name": "own"}]),
        ),
        (json!({}), &json!({}), Value::Null),
    ];
    for (spec, account, want) in table {
        let got = admit(&bare(spec.clone()), account).expect("allowed");
        assert_eq!(got["imagePullSecrets"], want, "{spec}");
    }
}

fn with_variable(secret: &str) -> Value {
    let source = json!({"secretKeyRef": {"name": secret, "key": "k"}});
    json!([{"name": "c", "env": [{"name": "v", "value": "1"}, {"name": "w", "valueFrom": source}]}])
}

fn with_all_of(secret: &str) -> Value {
    json!([{"name": "c", "envFrom": [{"configMapRef": {"name": "m"}}, {"secretRef": {"name": secret}}]}])
}

#[test]
fn an_account_that_enforces_it_says_which_secrets_its_pods_may_use() {
    let enforcing = json!({
        "metadata": {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}},
        "secrets": [{"name": "mine"}],
        "imagePullSecrets": [{"name": "pull"}],
    });
    let refused = |what: &str| {
        format!("{what} is not allowed because service account bot does not reference that secret")
    };
    let table = [
        (
            json!({"volumes": [{"name": "v", "secret": {"secretName": "SECRET"}}]}),
            refused("volume with secret.secretName=\"other\""),
        ),
        (
            json!({"initContainers": with_variable("SECRET")}),
            refused("init container c with envVar w referencing secret.secretName=\"other\""),
        ),
        (
            json!({"initContainers": with_all_of("SECRET")}),
            refused("init container c with envFrom referencing secret.secretName=\"other\""),
        ),
        (
            json!({"containers": with_variable("SECRET")}),
            refused("container c with envVar w referencing secret.secretName=\"other\""),
        ),
        (
            json!({"containers": with_all_of("SECRET")}),
            refused("container c with envFrom referencing secret.secretName=\"other\""),
        ),
    ];
    let of = |spec: &Value, name: &str| {
        let text = spec.to_string().replace("SECRET", name);
        bare(serde_json::from_str(&text).expect("JSON"))
    };
    for (spec, want) in table {
        assert_eq!(admit(&of(&spec, "other"), &enforcing), Err(want), "{spec}");
        assert!(admit(&of(&spec, "mine"), &enforcing).is_ok(), "{spec}");
        assert!(admit(&of(&spec, "other"), &json!({})).is_ok(), "{spec}");
    }
    for (name, want) in [
        ("pull", None),
        (
            "mine",
            Some(
                "imagePullSecrets[0].name=\"mine\" is not allowed because service account bot does not reference that imagePullSecret",
            ),
        ),
    ] {
        let got = admit(
            &bare(json!({"imagePullSecrets": [{"name": name}]})),
            &enforcing,
        );
        assert_eq!(got.err().as_deref(), want, "{name}");
    }
}

#[test]
fn enforcement_is_on_for_what_go_takes_for_true() {
    let spec = bare(json!({"containers": with_all_of("other")}));
    for (value, is_on) in [
        ("true", true),
        ("True", true),
        ("1", true),
        ("t", true),
        ("false", false),
        ("yes", false),
        ("tRUE", false),
        ("", false),
    ] {
        let account = json!({"metadata": {"annotations": {"kubernetes.io/enforce-mountable-secrets": value}}});
        assert_eq!(admit(&spec, &account).is_err(), is_on, "{value}");
    }
}

#[test]
fn mirror_pods_use_nothing_of_their_namespace() {
    const ACCOUNTS: &str = "a mirror pod may not reference service accounts";
    const SECRETS: &str = "a mirror pod may not reference secrets";
    const TOKENS: &str = "a mirror pod may not use ServiceAccountToken volume projections";
    let volume = |source: Value| json!({"volumes": [{"name": "v"}, source]});
    let named = || json!({"secretRef": {"name": "s"}});
    let table = [
        (json!({"containers": [{"name": "c"}]}), Ok(())),
        (json!({"serviceAccountName": "default"}), Err(ACCOUNTS)),
        (json!({"imagePullSecrets": [{"name": "s"}]}), Err(SECRETS)),
        (json!({"imagePullSecrets": [{}]}), Ok(())),
        (json!({"containers": with_variable("s")}), Err(SECRETS)),
        (json!({"initContainers": with_all_of("s")}), Err(SECRETS)),
        (
            json!({"ephemeralContainers": with_all_of("s")}),
            Err(SECRETS),
        ),
        (volume(json!({"emptyDir": {}})), Ok(())),
        (volume(json!({"secret": {"secretName": "s"}})), Err(SECRETS)),
        (
            volume(json!({"azureFile": {"secretName": "s"}})),
            Err(SECRETS),
        ),
        (volume(json!({"cephfs": named()})), Err(SECRETS)),
        (volume(json!({"cinder": named()})), Err(SECRETS)),
        (volume(json!({"flexVolume": named()})), Err(SECRETS)),
        (volume(json!({"rbd": named()})), Err(SECRETS)),
        (volume(json!({"scaleIO": named()})), Err(SECRETS)),
        (volume(json!({"iscsi": named()})), Err(SECRETS)),
        (volume(json!({"storageos": named()})), Err(SECRETS)),
        (
            volume(json!({"csi": {"nodePublishSecretRef": {"name": "s"}}})),
            Err(SECRETS),
        ),
        (
            volume(json!({"projected": {"sources": [{"secret": {"name": "s"}}]}})),
            Err(SECRETS),
        ),
        (
            volume(json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}})),
            Err(TOKENS),
        ),
    ];
    for (spec, want) in table {
        let pod = object(json!({"spec": spec}));
        assert_eq!(check_mirror(&pod), want, "{spec}");
    }
}

const CORE: &str = "/api/v1/namespaces/default";

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    for (field, value) in object(spec) {
        pod["spec"][field] = value;
    }
    pod
}

fn account(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
}

async fn server() -> (Server, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    (
        Server::open(directory.path(), Setup::default()).await,
        directory,
    )
}

/// Where the pods and the accounts of a new namespace are.
async fn new_namespace(server: &Server, name: &str) -> (String, String) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    assert_eq!(server.create("/api/v1/namespaces", namespace).await.0, 201);
    let at = |plural: &str| format!("/api/v1/namespaces/{name}/{plural}");
    (at("pods"), at("serviceaccounts"))
}

#[tokio::test]
async fn a_pod_runs_as_an_account_that_exists() {
    let (server, _directory) = server().await;
    let (pods, accounts) = (format!("{CORE}/pods"), format!("{CORE}/serviceaccounts"));

    let (code, status) = server
        .create(&pods, pod("p", json!({"serviceAccountName": "bot"})))
        .await;
    assert_eq!(code, 403, "{status}");
    assert_eq!(
        status["message"],
        "pods \"p\" is forbidden: error looking up service account default/bot: serviceaccount \"bot\" not found"
    );
    assert_eq!(status["details"], json!({"name": "p", "kind": "pods"}));

    let mut bot = account("bot");
    bot["imagePullSecrets"] = json!([{"name": "pull"}]);
    assert_eq!(server.create(&accounts, bot).await.0, 201);
    let (code, made) = server
        .create(&pods, pod("p", json!({"serviceAccount": "bot"})))
        .await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"]["serviceAccountName"], "bot");
    assert_eq!(made["spec"]["imagePullSecrets"], json!([{"name": "pull"}]));
    let spec = with_fixed_name(&made["spec"]);
    assert_eq!(spec["volumes"], json!([token_volume(VOLUME)]));
    assert_eq!(
        spec["containers"][0]["volumeMounts"],
        json!([token_mount()])
    );

    // What was given stays: an update sees no change in it.
    let (code, answer) = server.ask(Method::PUT, &format!("{pods}/p"), made).await;
    assert_eq!(code, 200, "{answer}");
}

#[tokio::test]
async fn a_pod_waits_for_the_account_that_its_namespace_is_about_to_get() {
    let (server, _directory) = server().await;
    let (pods, accounts) = new_namespace(&server, "young").await;
    let later = async {
        sleep(Duration::from_millis(200)).await;
        server.create(&accounts, account(DEFAULT)).await
    };
    let (made, account) = tokio::join!(server.create(&pods, pod("p", json!({}))), later);
    assert_eq!(account.0, 201);
    let (code, made) = made;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"]["serviceAccountName"], DEFAULT);
    assert_eq!(made["spec"]["serviceAccount"], DEFAULT);
}

#[tokio::test]
async fn a_namespace_that_gets_no_account_runs_nothing() {
    let (server, _directory) = server().await;
    let (pods, _) = new_namespace(&server, "bare").await;
    let (code, status) = server.create(&pods, pod("p", json!({}))).await;
    assert_eq!(code, 403, "{status}");
    assert_eq!(
        status["message"],
        "pods \"p\" is forbidden: error looking up service account bare/default: serviceaccount \"default\" not found"
    );

    let mut mirror = pod("mirror", json!({"nodeName": "n"}));
    mirror["metadata"]["annotations"] = json!({MIRROR: "x"});
    let (code, made) = server.create(&pods, mirror).await;
    assert_eq!((code, &made["spec"]["volumes"]), (201, &Value::Null));
}

#[tokio::test]
async fn containers_for_debugging_keep_to_the_secrets_of_the_account() {
    let (server, _directory) = server().await;
    let (pods, accounts) = (format!("{CORE}/pods"), format!("{CORE}/serviceaccounts"));
    let mut bot = account("bot");
    bot["metadata"]["annotations"] = json!({"kubernetes.io/enforce-mountable-secrets": "true"});
    bot["secrets"] = json!([{"name": "mine"}]);
    assert_eq!(server.create(&accounts, bot).await.0, 201);
    let made = server.create(&pods, pod("p", json!({"serviceAccountName": "bot"})));
    assert_eq!(made.await.0, 201);

    let path = format!("{pods}/p/ephemeralcontainers");
    let debug = |secret: &str| {
        let mut containers = with_all_of(secret);
        containers[0]["name"] = json!("debug");
        containers[0]["image"] = json!("i");
        json!({"spec": {"ephemeralContainers": containers}})
    };
    let (code, status) = server.ask(Method::PATCH, &path, debug("other")).await;
    assert_eq!(code, 500, "{status}");
    assert_eq!(
        status["message"],
        "ephemeral container debug with envFrom referencing secret.secretName=\"other\" is not allowed because service account bot does not reference that secret"
    );
    let (code, answer) = server.ask(Method::PATCH, &path, debug("mine")).await;
    assert_eq!(code, 200, "{answer}");
}
