//! Tests of rule coverage and privilege escalation prevention.

use serde_json::{Value, json};

use super::tests::{binding, index, map, rules};
use super::*;
use crate::user::User;

fn policy_rules(value: Value) -> Vec<PolicyRule> {
    serde_json::from_value(value).expect("valid rules")
}

#[test]
fn rule_coverage_matches_upstream() {
    let rule = |groups: &str, resources: &str, verbs: &str, names: &str| {
        let words =
            |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        json!({"apiGroups": words(groups), "resources": words(resources), "verbs": words(verbs), "resourceNames": words(names)})
    };
    let url = |urls: &[&str]| json!({"nonResourceURLs": urls, "verbs": ["get"]});
    let cases = [
        (
            json!([rule("a", "x", "get", "")]),
            json!([rule("a", "x", "get", "")]),
            vec![],
        ),
        (
            json!([rule("a", "*/scale", "get", "")]),
            json!([rule("a", "x/scale", "get", "")]),
            vec![],
        ),
        (
            json!([rule("a", "*/scale", "get", "")]),
            json!([rule("a", "x", "get", "")]),
            vec![r#"{APIGroups:["a"], Resources:["x"], Verbs:["get"]}"#],
        ),
        (
            json!([rule("a", "x y", "get list", "")]),
            json!([rule("a b", "x", "get", "")]),
            vec![r#"{APIGroups:["b"], Resources:["x"], Verbs:["get"]}"#],
        ),
        (
            json!([rule("a", "x", "get", ""), rule("a", "y", "get", "")]),
            json!([rule("a", "x y", "get", "")]),
            vec![],
        ),
        (
            json!([rule("a", "x", "get", "")]),
            json!([rule("*", "x", "get", "")]),
            vec![r#"{APIGroups:["*"], Resources:["x"], Verbs:["get"]}"#],
        ),
        (
            json!([rule("*", "*", "*", "")]),
            json!([rule("*", "x", "*", "n")]),
            vec![],
        ),
        (
            json!([rule("a", "x", "get", "m n")]),
            json!([rule("a", "x", "get", "n")]),
            vec![],
        ),
        (
            json!([rule("a", "x", "get", "n")]),
            json!([rule("a", "x", "get list", "")]),
            vec![r#"{APIGroups:["a"], Resources:["x"], Verbs:["get" "list"]}"#],
        ),
        (
            json!([rule("a", "x", "get", "m")]),
            json!([rule("a", "x", "get", "m n")]),
            vec![r#"{APIGroups:["a"], Resources:["x"], ResourceNames:["n"], Verbs:["get"]}"#],
        ),
        (
            json!([url(&["/a/*"])]),
            json!([url(&["/a/b", "/a/*"])]),
            vec![],
        ),
        (
            json!([url(&["/a/*"])]),
            json!([url(&["/a", "*"])]),
            vec![
                r#"{NonResourceURLs:["/a"], Verbs:["get"]}"#,
                r#"{NonResourceURLs:["*"], Verbs:["get"]}"#,
            ],
        ),
        (json!([url(&["*"])]), json!([url(&["/a"])]), vec![]),
        (
            json!([rule("*", "*", "*", "")]),
            json!([url(&["/a"])]),
            vec![r#"{NonResourceURLs:["/a"], Verbs:["get"]}"#],
        ),
        (json!([]), json!([]), vec![]),
        (json!([]), json!([{"verbs": ["get"]}]), vec![]),
    ];
    for (held, wanted, want) in cases {
        let case = format!("{held} {wanted}");
        let missing =
            uncovered(&policy_rules(held), &policy_rules(wanted)).expect("few permissions");
        let missing: Vec<String> = compact(missing).iter().map(PolicyRule::to_string).collect();
        assert_eq!(missing, want, "{case}");
    }
}

#[test]
fn rules_with_a_billion_permissions_are_rejected_quickly() {
    let many: Vec<String> = (0..200).map(|at| format!("v{at}")).collect();
    let wanted = policy_rules(
        json!([{"apiGroups": many, "resources": many, "verbs": many, "resourceNames": many}]),
    );
    assert_eq!(uncovered(&[], &wanted), Err(TooManyPermissions));
    let all = policy_rules(json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]));
    assert_eq!(uncovered(&all, &wanted), Ok(vec![]));
}

#[test]
fn escalation_is_rejected() {
    let index = index(json!([
        ["ClusterRole", "reader", rules(&["get", "list"], &["pods"])],
        ["ClusterRole", "admin", {"rules": [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ]}],
        ["ClusterRole", "escalator", {"rules": [
            {"apiGroups": [GROUP], "resources": ["roles"], "verbs": ["escalate"], "resourceNames": ["r"]},
            {"apiGroups": [GROUP], "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": ["admin"]},
        ]}],
        ["RoleBinding", "a/read", binding("ClusterRole", "reader", json!([{"kind": "User", "name": "ann"}]))],
        ["ClusterRoleBinding", "admin", binding("ClusterRole", "admin", json!([{"kind": "User", "name": "adm"}]))],
        ["ClusterRoleBinding", "esc", binding("ClusterRole", "escalator", json!([{"kind": "User", "name": "esc"}]))],
        ["ClusterRoleBinding", "lost", binding("ClusterRole", "gone", json!([{"kind": "User", "name": "esc"}]))],
    ]));
    let policy = index.policy();
    let check = |user: &str,
                 kind: RbacKind,
                 namespace: &str,
                 request_name: &str,
                 object: Value,
                 old: Option<Value>| {
        let (object, old) = (map(object), old.map(map));
        let user = User::new(
            user,
            if user == "root" {
                &["system:masters"]
            } else {
                &["dev"]
            },
        );
        let (object, old) = (&object, old.as_ref());
        check_escalation(
            &policy,
            &RbacWrite {
                user: &user,
                kind,
                namespace,
                request_name,
                object,
                old,
            },
        )
        .map_err(|status| (status.code, status.message))
    };
    let role = |verbs: &[&str]| {
        let mut role = rules(verbs, &["pods"]);
        role["metadata"] = json!({"name": "r"});
        role
    };
    let bind = |role: &str| {
        let mut binding = binding("ClusterRole", role, json!([]));
        binding["metadata"] = json!({"name": "b"});
        binding
    };
    let aggregated =
        json!({"metadata": {"name": "r"}, "aggregationRule": {"clusterRoleSelectors": [{}]}});

    assert_eq!(
        check("ann", RbacKind::Role, "a", "", role(&["list"]), None),
        Ok(())
    );
    let refused = |code, message: &str| Err((code, message.to_owned()));
    assert_eq!(
        check(
            "ann",
            RbacKind::Role,
            "a",
            "",
            role(&["list", "watch", "delete"]),
            None
        ),
        refused(
            403,
            concat!(
                r#"roles.rbac.authorization.k8s.io "r" is forbidden: user "ann" (groups=["dev"]) "#,
                "is attempting to grant RBAC permissions not currently held:\n",
                r#"{APIGroups:[""], Resources:["pods"], Verbs:["watch" "delete"]}"#,
            )
        )
    );
    assert!(check("ann", RbacKind::Role, "b", "", role(&["list"]), None).is_err());
    assert!(check("ann", RbacKind::ClusterRole, "", "", role(&["list"]), None).is_err());
    assert_eq!(
        check("root", RbacKind::ClusterRole, "", "", role(&["*"]), None),
        Ok(())
    );

    let touched = |finalizer: &str, verbs: &[&str]| {
        let mut role = role(verbs);
        role["metadata"]["finalizers"] = json!([finalizer]);
        role
    };
    let old = || Some(touched("x", &["delete"]));
    assert_eq!(
        check(
            "ann",
            RbacKind::Role,
            "a",
            "r",
            touched("y", &["delete"]),
            old()
        ),
        Ok(())
    );
    assert!(
        check(
            "ann",
            RbacKind::Role,
            "a",
            "r",
            touched("y", &["create"]),
            old()
        )
        .is_err()
    );

    assert_eq!(
        check("esc", RbacKind::Role, "a", "r", role(&["create"]), old()),
        Ok(())
    );
    let message = check("esc", RbacKind::Role, "a", "", role(&["create"]), None)
        .expect_err("a create has no name to match")
        .1;
    assert!(message.ends_with(
        r#"Verbs:["create"]}; resolution errors: [clusterrole.rbac.authorization.k8s.io "gone" not found]"#
    ), "{message}");

    assert_eq!(
        check("ann", RbacKind::RoleBinding, "a", "", bind("reader"), None),
        Ok(())
    );
    assert!(
        check(
            "ann",
            RbacKind::ClusterRoleBinding,
            "",
            "",
            bind("reader"),
            None
        )
        .is_err()
    );
    assert!(check("ann", RbacKind::RoleBinding, "a", "", bind("admin"), None).is_err());
    assert_eq!(
        check(
            "esc",
            RbacKind::ClusterRoleBinding,
            "",
            "",
            bind("admin"),
            None
        ),
        Ok(())
    );
    assert_eq!(
        check("ann", RbacKind::RoleBinding, "a", "", bind("gone"), None),
        refused(
            404,
            r#"rolebindings.rbac.authorization.k8s.io "gone" not found"#
        )
    );

    assert_eq!(
        check(
            "adm",
            RbacKind::ClusterRole,
            "",
            "",
            aggregated.clone(),
            None
        ),
        Ok(())
    );
    assert_eq!(
        check("ann", RbacKind::ClusterRole, "", "", aggregated, None),
        refused(
            403,
            concat!(
                r#"clusterroles.rbac.authorization.k8s.io "r" is forbidden: "#,
                "must have cluster-admin privileges to use the aggregationRule",
            )
        )
    );
}
