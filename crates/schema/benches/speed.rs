//! Measures parsing the built-in table, and decoding, canonicalizing and merging a typical pod.

use std::hint::black_box;
use std::time::{Duration, Instant};

use rhumb_schema::{DecodeOptions, Table, canonicalize, decode_json, decode_yaml, strategic_merge};

const ROUNDS: u32 = 20_000;
const BATCHES: u32 = 200;

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-6d4b75cb6d-hx9zq","namespace":"shop",
"labels":{"app":"web","pod-template-hash":"6d4b75cb6d","tier":"frontend"},"annotations":{"example.com/checksum":"0f343b0931126a20f133d67c2b018a3b"},
"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-6d4b75cb6d","uid":"8f7a1e1c-7c1c-4c1c-9c1c-1c1c1c1c1c1c","controller":true,"blockOwnerDeletion":true}]},
"spec":{"containers":[{"name":"web","image":"registry.example.com/shop/web:1.27.3","ports":[{"name":"http","containerPort":8080,"protocol":"TCP"}],
"env":[{"name":"LOG_LEVEL","value":"info"},{"name":"POD_IP","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"status.podIP"}}}],
"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},
"livenessProbe":{"httpGet":{"path":"/healthz","port":"http","scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},
"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],
"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"web","securityContext":{},"schedulerName":"default-scheduler",
"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"}}"#;

/// Shows the best of several batches: others may use the machine as well.
fn measure(what: &str, rounds: u32, mut work: impl FnMut()) {
    let mut best = Duration::MAX;
    for _ in 0..BATCHES.min(rounds) {
        let started = Instant::now();
        for _ in 0..rounds.div_ceil(BATCHES) {
            work();
        }
        best = best.min(started.elapsed() / rounds.div_ceil(BATCHES));
    }
    println!("{what:32} {best:>12.2?}");
}

fn main() {
    measure("parse the built-in table", 1, || {
        black_box(Table::builtin());
    });
    let table = Table::builtin();
    let Some(pod) = table.type_id("io.k8s.api.core.v1.Pod") else {
        return;
    };
    println!("a pod of {} bytes", POD.len());
    let options = DecodeOptions::default();
    let decode = || decode_json(table, pod, POD.as_bytes(), options);
    let Ok(decoded) = decode() else {
        return;
    };
    let object = decoded.object;
    measure("decode JSON", ROUNDS, || {
        let _ = black_box(decode());
    });
    measure("serde_json alone, for comparison", ROUNDS, || {
        let _ = black_box(serde_json::from_str::<serde_json::Value>(POD));
    });
    measure("decode the same as YAML", ROUNDS / 10, || {
        let _ = black_box(decode_yaml(table, pod, POD.as_bytes(), options));
    });
    measure("copy, for comparison", ROUNDS, || {
        black_box(object.clone());
    });
    measure("copy and canonicalize", ROUNDS, || {
        let mut object = object.clone();
        canonicalize(table, pod, &mut object);
        black_box(object);
    });
    let patch = r#"{"spec":{"containers":[{"name":"web","image":"registry.example.com/shop/web:1.27.4"}]}}"#;
    let Ok(serde_json::Value::Object(patch)) = serde_json::from_str(patch) else {
        return;
    };
    measure("strategic merge of an image", ROUNDS, || {
        let _ = black_box(strategic_merge(table, pod, &object, patch.clone()));
    });
}
