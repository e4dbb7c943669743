//! What agents and other network plugins report or fail to report.

use super::*;

#[tokio::test]
async fn stopped_agent_revokes_programmed() {
    let grace = "--network-policy-agent-grace-period=2s";
    let server = TestServer::start_with(&[CONTROLLERS, grace]);
    let client = server.client_for_pods().await;
    create_node(&client, "a").await;
    create_pod(&client, "on-a", "a", "10.0.0.1").await;
    let policy = create_policy(&client, "p", json!({})).await;
    let mut report = applied(&[&policy]);
    report["heartbeatSeconds"] = Value::Null;
    let done = "True/Applied: applied on 1 of 1 node";
    for _ in 0..2 {
        report["lastHeartbeatTime"] = now();
        let time = report["lastHeartbeatTime"].as_str().expect("a time");
        let silent = format!(
            "Unknown/NoHeartbeat: applied on 0 of 1 node; no heartbeat from the agents of a (last at {time})"
        );
        replace_report(&client, "a", report.clone()).await;
        wait_for_condition(&client, "p", "Programmed", done).await;
        wait_for_condition(&client, "p", "Programmed", &silent).await;
    }
    let metrics = client
        .request_text(
            Request::get("/metrics")
                .body(Vec::new())
                .expect("a request"),
        )
        .await
        .expect("metrics");
    for line in [
        "rhumb_network_policy_conditions{condition=\"Programmed\",status=\"Unknown\"} 1",
        "rhumb_network_policy_conditions{condition=\"Supported\",status=\"True\"} 1",
        "rhumb_network_policy_min_versions{min_version=\"1.3\"} 1",
        "rhumb_network_policy_nodes{heartbeat=\"stale\"} 1",
    ] {
        assert!(metrics.lines().any(|shown| shown == line), "{line}");
    }
}

#[tokio::test]
async fn example_plugin_reports_policies() {
    let (_server, client) = cluster(&["a"]).await;
    let other_rules = vec![json!({}); 101];
    create_policy(&client, "plain", json!({})).await;
    create_policy(
        &client,
        "range",
        json!({"ports": [{"port": 1, "endPort": 2}]}),
    )
    .await;
    create_policy(&client, "long", json!({})).await;
    let patch = Patch::Merge(json!({"spec": {"ingress": other_rules}}));
    let params = PatchParams::default();
    let patched = policies(&client).patch("long", &params, &patch).await;
    patched.expect("a change");
    let plugin = crate::network_policy_plugin::run(client.clone(), "a");
    let check = async {
        let done = "True/Applied: applied on 1 of 1 node";
        wait_for_condition(&client, "plain", "Programmed", done).await;
        wait_for_condition(&client, "long", "Programmed", done).await;
        let problem = "True/ReportedByAgents: TooManyRules: rules after the first 100 are slow (reported by a)";
        wait_for_condition(&client, "long", "Problem", problem).await;
        let version = "False/Version: version 1.21 is not supported on a (newest supported: 1.8); the policy is ignored there";
        wait_for_condition(&client, "range", "Supported", version).await;
        // A pod that is added later is covered by the next report.
        create_pod(&client, "later", "a", "10.0.0.8").await;
        create_policy(&client, "after", json!({})).await;
        wait_for_condition(&client, "after", "Programmed", done).await;
    };
    tokio::select! {
        error = plugin => panic!("the plugin ended: {error}"),
        () = check => {}
    }
}

#[tokio::test]
async fn pod_is_covered_by_a_report_that_observed_it() {
    let (_server, client) = cluster(&["a"]).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    create_pod(&client, "second", "a", "10.0.0.2").await;
    let label = |app: &str| Patch::Merge(json!({"metadata": {"labels": {"app": app}}}));
    let params = PatchParams::default();
    pods.patch("second", &params, &label("other"))
        .await
        .expect("a label");
    let policy = create_policy(&client, "p", json!({})).await;
    let mut report = applied(&[&policy]);
    report["podsResourceVersion"] = json!(policy.resource_version());
    replace_report(&client, "a", report.clone()).await;
    let done = "True/Applied: applied on 1 of 1 node";
    wait_for_condition(&client, "p", "Programmed", done).await;

    let labelled = pods.patch("second", &params, &label("web")).await;
    let waiting = "Unknown/Pending: applied on 0 of 1 node; waiting for a (its agent has not observed all pods there)";
    wait_for_condition(&client, "p", "Programmed", waiting).await;
    report["podsResourceVersion"] = json!(labelled.expect("a label").resource_version());
    replace_report(&client, "a", report).await;
    wait_for_condition(&client, "p", "Programmed", done).await;
}

#[tokio::test]
async fn conditions_of_other_implementations_are_kept() {
    let (_server, client) = cluster(&["a"]).await;
    let policy = create_policy(&client, "p", json!({})).await;
    let theirs = json!([
        {
            "type": "Problem", "status": "True", "reason": "TooManyRules", "message": "m",
            "lastTransitionTime": "2020-01-01T00:00:00Z",
        },
        {"type": "Programmed", "status": "True"},
    ]);
    let patch = Patch::Merge(json!({"status": {"conditions": theirs}}));
    let params = PatchParams::default();
    let patched = policies(&client).patch_status("p", &params, &patch).await;
    patched.expect("a status");
    // The other conditions show that the controller has seen these, first without and then with an agent.
    let pods = "True/PodsSelected: at least one pod is selected by spec.podSelector";
    wait_for_condition(&client, "p", "TargetMatch", pods).await;
    replace_report(&client, "a", applied(&[&policy])).await;
    let supported = "True/Supported: all agents that report and have to enforce it support its version and its features";
    let policy = wait_for_condition(&client, "p", "Supported", supported).await;
    for theirs in theirs.as_array().expect("a list") {
        let type_ = theirs["type"].as_str().expect("a type");
        assert_eq!(condition(&policy, type_), Some(theirs));
    }
}

#[tokio::test]
async fn problem_that_agents_report_is_shown() {
    let (_server, client) = cluster(&["a", "b"]).await;
    let policy = create_policy(&client, "p", json!({})).await;
    for node in ["a", "b"] {
        let mut report = applied(&[&policy]);
        report["policyProblems"] = json!([{
            "namespace": "default", "name": "p", "uid": policy.uid(), "generation": policy.metadata.generation,
            "reason": "TooManyRules", "message": "the first 100 rules are in force",
        }]);
        replace_report(&client, node, report).await;
    }
    let problem =
        "True/ReportedByAgents: TooManyRules: the first 100 rules are in force (reported by a, b)";
    wait_for_condition(&client, "p", "Problem", problem).await;
    for node in ["a", "b"] {
        replace_report(&client, node, applied(&[&policy])).await;
    }
    let none = "False/NoProblem: nothing is wrong with the policy itself";
    wait_for_condition(&client, "p", "Problem", none).await;
}
