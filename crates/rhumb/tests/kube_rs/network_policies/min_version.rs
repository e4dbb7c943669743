//! `spec.minVersion`: computed, kept, removed and enforced.

use super::*;

#[tokio::test]
async fn min_version_is_defaulted_by_features() {
    let server = TestServer::start();
    let client = server.client().await;
    let peer = |peer: Value| json!({"ingress": [{"from": [peer]}]});
    let table = [
        (json!({}), "1.3"),
        (json!({"policyTypes": ["Ingress"]}), "1.3"),
        (json!({"policyTypes": ["Egress"]}), "1.8"),
        (json!({"egress": [{}]}), "1.8"),
        (peer(json!({"ipBlock": {"cidr": "10.0.0.0/8"}})), "1.8"),
        (peer(json!({"ipBlock": {"cidr": "fd00::/8"}})), "1.9"),
        (
            peer(json!({"podSelector": {}, "namespaceSelector": {}})),
            "1.11",
        ),
        (
            json!({"ingress": [{"ports": [{"protocol": "SCTP"}]}]}),
            "1.12",
        ),
        (end_port(), "1.21"),
    ];
    for (at, (spec, want)) in table.into_iter().enumerate() {
        let name = format!("p{at}");
        let made = create(&client, &name, spec.clone()).await.object();
        assert_eq!(version(&made), want, "{spec}");
        assert_eq!(made["metadata"]["generation"], 1);
        assert_eq!(get(&client, &name).await, made);
    }
}

#[tokio::test]
async fn defaulted_min_version_follows_spec_changes() {
    let server = TestServer::start();
    let client = server.client().await;
    let mut read = create(&client, "p", json!({})).await.object();
    // In read-modify-write, the version was not set by the client.
    read["spec"]["ingress"] = end_port()["ingress"].clone();
    let written = put(&client, "p", &read).await.object();
    assert_eq!(version(&written), "1.21");
    assert_eq!(written["metadata"]["generation"], 2);

    let operations = json!([{"op": "remove", "path": "/spec/ingress"}]);
    let written = patch(&client, "p", OPERATIONS, operations).await.object();
    assert_eq!(version(&written), "1.3");
    let egress = json!({"spec": {"egress": [{}], "policyTypes": ["Egress"]}});
    for media in [MERGE, STRATEGIC] {
        let written = patch(&client, "p", media, egress.clone()).await.object();
        assert_eq!(version(&written), "1.8", "{media}");
        assert_eq!(written["metadata"]["generation"], 4, "{media}");
    }

    // A current client omits the version, which does not change it.
    let mut known = typed(&client).get("p").await.expect("a policy");
    let params = PostParams::default();
    known.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
    let same = typed(&client).replace("p", &params, &known).await;
    let generation = same.expect("an update").metadata.generation;
    assert_eq!(generation, Some(4));
    assert_eq!(version(&get(&client, "p").await), "1.8");
}

#[tokio::test]
async fn explicit_min_version_is_enforced() {
    let server = TestServer::start();
    let client = server.client().await;
    let made = create(&client, "p", json!({"minVersion": "1.12"}))
        .await
        .object();
    assert_eq!(version(&made), "1.12");
    let egress = json!({"spec": {"egress": [{}]}});
    let written = patch(&client, "p", MERGE, egress).await.object();
    assert_eq!(version(&written), "1.12");

    let needs = "spec.ingress[0].ports[0].endPort: Forbidden: needs version 1.21 of network policies, but \
                 spec.minVersion is 1.12: set that to 1.21, or leave it out";
    let refused = patch(&client, "p", MERGE, json!({"spec": end_port()})).await;
    let want = format!("NetworkPolicy.networking.k8s.io \"p\" is invalid: {needs}");
    assert_eq!(refused.refusal(), (422, &*want));
    let cause = &refused.body["details"]["causes"][0];
    assert_eq!(cause["field"], "spec.ingress[0].ports[0].endPort");
    let both = json!({"spec": {"minVersion": "1.21", "ingress": end_port()["ingress"]}});
    assert_eq!(
        version(&patch(&client, "p", MERGE, both).await.object()),
        "1.21"
    );

    let unknown = create(&client, "q", json!({"minVersion": "1.22"})).await;
    let want = "NetworkPolicy.networking.k8s.io \"q\" is invalid: spec.minVersion: Unsupported value: \"1.22\": \
                supported values: \"1.3\", \"1.8\", \"1.9\", \"1.11\", \"1.12\", \"1.21\"";
    assert_eq!(unknown.refusal(), (422, want));
}

#[tokio::test]
async fn min_version_is_computed_after_a_patch_removed_it() {
    let server = TestServer::start();
    let client = server.client().await;
    let removed = json!({"spec": {"minVersion": null}});
    let operations = json!([{"op": "remove", "path": "/spec/minVersion"}]);
    for (name, media, removal) in [
        ("merge", MERGE, removed.clone()),
        ("strategic", STRATEGIC, removed),
        ("operations", OPERATIONS, operations),
    ] {
        let made = create(&client, name, json!({"minVersion": "1.21"})).await;
        // An update that omits it, as of a client that does not know the field, and a patch of something else.
        let mut omitted = made.object();
        let spec = omitted["spec"].as_object_mut().expect("a spec");
        spec.remove("minVersion");
        assert_eq!(
            version(&put(&client, name, &omitted).await.object()),
            "1.21"
        );
        let label = json!({"metadata": {"labels": {"a": "b"}}});
        let labelled = patch(&client, name, MERGE, label).await.object();
        assert_eq!(version(&labelled), "1.21");
        let patched = patch(&client, name, media, removal).await.object();
        assert_eq!(version(&patched), "1.3", "{media}");
        assert_eq!(patched["metadata"]["generation"], 2, "{media}");
    }
}
