//! Tests of the ServiceAccount plugin.

use serde_json::json;

use super::*;
use rhumb_registry::testing::object;

/// A pod spec, and the spec after mutation.
struct TokenMountCase {
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

/// Replaces the random suffix of the volume name by a fixed one.
fn with_fixed_name(spec: &Value) -> Value {
    let text = spec.to_string();
    let random = text
        .split('"')
        .find(|word| word.starts_with("kube-api-access-"));
    let Some(random) = random else {
        return spec.clone();
    };
    assert_eq!(random.len(), VOLUME.len(), "{random}");
    serde_json::from_str(&text.replace(random, VOLUME)).expect("valid JSON")
}

/// Mutates and checks a pod with an existing account.
fn admit(spec: &Value, account: &Value) -> Result<Value, String> {
    let mut pod = object(json!({"metadata": {"name": "p"}, "spec": spec}));
    let mut account = object(account.clone());
    fields::set(&mut account, "metadata.name", "bot");
    set_default_account(&mut pod);
    apply_account(&mut pod, &account);
    secrets::check_pod(&pod, &account)?;
    let once = pod.clone();
    apply_account(&mut pod, &account);
    assert_eq!(pod, once, "a second call changes nothing");
    Ok(with_fixed_name(&pod["spec"]))
}

#[test]
fn pods_get_a_token_volume_of_their_account() {
    let own_mount =
        json!([{"name": "own", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}]);
    let cases = [
        TokenMountCase {
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
        TokenMountCase {
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
        TokenMountCase {
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
fn the_pods_automount_setting_overrides_the_accounts() {
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
        if let Some(automount) = of_pod {
            spec["automountServiceAccountToken"] = json!(automount);
        }
        if let Some(automount) = of_account {
            account["automountServiceAccountToken"] = json!(automount);
        }
        let got = admit(&spec, &account).expect("the pod is allowed");
        let has_token = got["volumes"] == json!([token_volume(VOLUME)]);
        assert_eq!(has_token, want, "{of_pod:?} {of_account:?}: {got}");
        let mounts = got["containers"][0]["volumeMounts"].is_array();
        assert_eq!(mounts, want, "{of_pod:?} {of_account:?}: {got}");
    }
}

/// Disables the token mount, so that only the rest is compared.
fn without_token_mount(spec: Value) -> Value {
    let mut spec = spec;
    spec["automountServiceAccountToken"] = json!(false);
    spec["serviceAccountName"] = json!("bot");
    spec
}

#[test]
fn image_pull_secrets_default_to_the_accounts() {
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
        let got = admit(&without_token_mount(spec.clone()), account).expect("the pod is allowed");
        assert_eq!(got["imagePullSecrets"], want, "{spec}");
    }
}

fn with_variable(secret: &str) -> Value {
    let source = json!({"secretKeyRef": {"name": secret, "key": "k"}});
    json!([{"name": "c", "env": [{"name": "v", "value": "1"}, {"name": "w", "valueFrom": source}]}])
}

fn with_env_from(secret: &str) -> Value {
    json!([{"name": "c", "envFrom": [{"configMapRef": {"name": "m"}}, {"secretRef": {"name": secret}}]}])
}

#[test]
fn an_account_enforcing_mountable_secrets_restricts_its_pods() {
    let enforcing = json!({
        "metadata": {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}},
        "secrets": [{"name": "mine"}],
        "imagePullSecrets": [{"name": "pull"}],
    });
    let rejection = |message: &str| {
        format!(
            "{message} is not allowed because service account bot does not reference that secret"
        )
    };
    let table = [
        (
            json!({"volumes": [{"name": "v", "secret": {"secretName": "SECRET"}}]}),
            rejection("volume with secret.secretName=\"other\""),
        ),
        (
            json!({"initContainers": with_variable("SECRET")}),
            rejection("init container c with envVar w referencing secret.secretName=\"other\""),
        ),
        (
            json!({"initContainers": with_env_from("SECRET")}),
            rejection("init container c with envFrom referencing secret.secretName=\"other\""),
        ),
        (
            json!({"containers": with_variable("SECRET")}),
            rejection("container c with envVar w referencing secret.secretName=\"other\""),
        ),
        (
            json!({"containers": with_env_from("SECRET")}),
            rejection("container c with envFrom referencing secret.secretName=\"other\""),
        ),
    ];
    let pod_of_account = |spec: &Value, name: &str| {
        let text = spec.to_string().replace("SECRET", name);
        without_token_mount(serde_json::from_str(&text).expect("valid JSON"))
    };
    for (spec, want) in table {
        assert_eq!(
            admit(&pod_of_account(&spec, "other"), &enforcing),
            Err(want),
            "{spec}"
        );
        assert!(
            admit(&pod_of_account(&spec, "mine"), &enforcing).is_ok(),
            "{spec}"
        );
        assert!(
            admit(&pod_of_account(&spec, "other"), &json!({})).is_ok(),
            "{spec}"
        );
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
            &without_token_mount(json!({"imagePullSecrets": [{"name": name}]})),
            &enforcing,
        );
        assert_eq!(got.err().as_deref(), want, "{name}");
    }
}

#[test]
fn mountable_secrets_are_enforced_for_gos_true_values() {
    let spec = without_token_mount(json!({"containers": with_env_from("other")}));
    for (value, is_enforced) in [
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
        assert_eq!(admit(&spec, &account).is_err(), is_enforced, "{value}");
    }
}

#[test]
fn mirror_pods_cannot_reference_accounts_secrets_or_tokens() {
    const ACCOUNTS: &str = "a mirror pod may not reference service accounts";
    const SECRETS: &str = "a mirror pod may not reference secrets";
    const TOKENS: &str = "a mirror pod may not use ServiceAccountToken volume projections";
    let volume = |source: Value| json!({"volumes": [{"name": "v"}, source]});
    let secret_ref = || json!({"secretRef": {"name": "s"}});
    let table = [
        (json!({"containers": [{"name": "c"}]}), Ok(())),
        (json!({"serviceAccountName": "default"}), Err(ACCOUNTS)),
        (json!({"imagePullSecrets": [{"name": "s"}]}), Err(SECRETS)),
        (json!({"imagePullSecrets": [{}]}), Ok(())),
        (json!({"containers": with_variable("s")}), Err(SECRETS)),
        (json!({"initContainers": with_env_from("s")}), Err(SECRETS)),
        (
            json!({"ephemeralContainers": with_env_from("s")}),
            Err(SECRETS),
        ),
        (volume(json!({"emptyDir": {}})), Ok(())),
        (volume(json!({"secret": {"secretName": "s"}})), Err(SECRETS)),
        (
            volume(json!({"azureFile": {"secretName": "s"}})),
            Err(SECRETS),
        ),
        (volume(json!({"cephfs": secret_ref()})), Err(SECRETS)),
        (volume(json!({"cinder": secret_ref()})), Err(SECRETS)),
        (volume(json!({"flexVolume": secret_ref()})), Err(SECRETS)),
        (volume(json!({"rbd": secret_ref()})), Err(SECRETS)),
        (volume(json!({"scaleIO": secret_ref()})), Err(SECRETS)),
        (volume(json!({"iscsi": secret_ref()})), Err(SECRETS)),
        (volume(json!({"storageos": secret_ref()})), Err(SECRETS)),
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
