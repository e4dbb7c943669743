//! Declares `NetworkPolicyNode` and its strategy: the report of the network policy agent of one node, named after the
//! node. rhumb's own kind.

use std::collections::HashSet;

use rhumb_meta::field::{Error, ErrorList};

use crate::{FieldView, Kind, ResourceScope, ResourceStrategy, StrategyContext, checks};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "networking.rhumb.dev",
        "v1alpha1",
        "NetworkPolicyNode",
        "networkpolicynodes",
        "dev.rhumb.networking.v1alpha1.NetworkPolicyNode",
    )
    .short_names(&["netpolnode"])
    .creates_on_update()
    .strategy(NetworkPolicyNodeStrategy)
}

const APPLIED_MAX: usize = 10_000;
const VERSIONS_MAX: usize = 100;
const UNIMPLEMENTED_MAX: usize = 100;
const PROBLEMS_MAX: usize = 1000;
const HEARTBEAT_SECONDS_MAX: i64 = 3600;
const POLICY_MESSAGE_MAX_BYTES: usize = 1024;
const WORD_MAX_BYTES: usize = 63;
const NAME_MAX_BYTES: usize = 253;
const MESSAGE_MAX_BYTES: usize = 32 * 1024;

#[derive(Debug)]
struct NetworkPolicyNodeStrategy;

impl ResourceStrategy for NetworkPolicyNodeStrategy {
    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        at_most_bytes(&object.field("agent"), NAME_MAX_BYTES, errors);
        at_most_bytes(&object.field("bootID"), NAME_MAX_BYTES, errors);
        at_most_bytes(&object.field("problem"), MESSAGE_MAX_BYTES, errors);
        heartbeat_seconds(&object.field("heartbeatSeconds"), errors);
        at_most_bytes(&object.field("podsResourceVersion"), WORD_MAX_BYTES, errors);
        let versions = object.field("versions");
        if at_most_items(&versions, VERSIONS_MAX, errors) {
            each_once(&versions, errors, |version, errors| {
                name(version, WORD_MAX_BYTES, errors);
                version.str()
            });
        }
        let unimplemented = object.field("unimplemented");
        if at_most_items(&unimplemented, UNIMPLEMENTED_MAX, errors) {
            each_once(&unimplemented, errors, |item, errors| {
                name(&item.field("feature"), WORD_MAX_BYTES, errors);
                at_most_bytes(&item.field("message"), MESSAGE_MAX_BYTES, errors);
                item.text("feature")
            });
        }
        let applied = object.field("applied");
        if at_most_items(&applied, APPLIED_MAX, errors) {
            each_once(&applied, errors, |policy, errors| {
                name(&policy.field("namespace"), NAME_MAX_BYTES, errors);
                name(&policy.field("name"), NAME_MAX_BYTES, errors);
                at_most_bytes(&policy.field("uid"), NAME_MAX_BYTES, errors);
                checks::not_negative(&policy.field("generation"), errors);
                (policy.text("namespace"), policy.text("name"))
            });
        }
        let problems = object.field("policyProblems");
        if at_most_items(&problems, PROBLEMS_MAX, errors) {
            each_once(&problems, errors, |problem, errors| {
                name(&problem.field("namespace"), NAME_MAX_BYTES, errors);
                name(&problem.field("name"), NAME_MAX_BYTES, errors);
                at_most_bytes(&problem.field("uid"), NAME_MAX_BYTES, errors);
                name(&problem.field("reason"), WORD_MAX_BYTES, errors);
                at_most_bytes(&problem.field("message"), POLICY_MESSAGE_MAX_BYTES, errors);
                checks::not_negative(&problem.field("generation"), errors);
                let policy = (problem.text("namespace"), problem.text("name"));
                (policy, problem.text("reason"))
            });
        }
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        _: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        self.validate_create(object, request, errors);
    }
}

/// Returns whether the list is short enough to validate its items.
fn at_most_items(list: &FieldView<'_>, max: usize, errors: &mut ErrorList) -> bool {
    let fits = list.len() <= max;
    if !fits {
        errors.push(Error::too_many(list.path(), Some(list.len()), max));
    }
    fits
}

fn at_most_bytes(text: &FieldView<'_>, max: usize, errors: &mut ErrorList) {
    if text.len() > max {
        errors.push(Error::too_long(text.path(), max));
    }
}

fn heartbeat_seconds(value: &FieldView<'_>, errors: &mut ErrorList) {
    let seconds = value.int();
    if seconds.is_some_and(|seconds| !(1..=HEARTBEAT_SECONDS_MAX).contains(&seconds)) {
        value.invalid(
            errors,
            format!("must be between 1 and {HEARTBEAT_SECONDS_MAX}"),
        );
    }
}

fn name(text: &FieldView<'_>, max_bytes: usize, errors: &mut ErrorList) {
    if text.is_empty() {
        text.required(errors, "");
    }
    at_most_bytes(text, max_bytes, errors);
}

/// Validates every item, and rejects duplicate keys.
fn each_once<'a, K: std::hash::Hash + Eq>(
    list: &'a FieldView<'a>,
    errors: &mut ErrorList,
    check: impl Fn(&FieldView<'a>, &mut ErrorList) -> K,
) {
    let mut seen = HashSet::new();
    for item in list.items() {
        let key = check(&item, errors);
        if !seen.insert(key) {
            item.duplicate(errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::{check_create, check_update, kind};

    fn check(report: Value, want: &[&str]) {
        let node = kind("networking.rhumb.dev", "NetworkPolicyNode");
        check_create(&node, report.clone(), want);
        check_update(&node, json!({}), report, want);
    }

    #[test]
    fn a_complete_report_is_valid() {
        let unimplemented = json!([{"feature": "SCTP", "message": "the kernel has no SCTP"}]);
        let applied = json!([
            {"namespace": "x", "name": "y", "uid": "u", "generation": 3},
            {"namespace": "x", "name": "z"},
            {"namespace": "z", "name": "y"},
        ]);
        check(
            json!({
                "agent": "rhumb 0.1.0", "bootID": "2d9f3c1a-6f2c-4e0e-9a43-5f0f3c6a9b11",
                "versions": ["1.3", "1.8"], "unimplemented": unimplemented,
                "applied": applied, "problem": "nft: no such file",
                "lastHeartbeatTime": "2030-01-01T00:00:00Z", "heartbeatSeconds": 10, "podsResourceVersion": "77",
                "policyProblems": [
                    {"namespace": "x", "name": "y", "uid": "u", "generation": 3, "reason": "A", "message": "m"},
                    {"namespace": "x", "name": "y", "reason": "B"},
                ],
            }),
            &[],
        );
        check(json!({}), &[]);
    }

    #[test]
    fn empty_and_duplicate_entries_are_rejected() {
        check(
            json!({
                "versions": ["1.3", "", "1.3"],
                "unimplemented": [{"feature": "SCTP"}, {"message": "m"}, {"feature": "SCTP"}],
                "applied": [{"namespace": "x", "name": "y"}, {"generation": -1}, {"namespace": "x", "name": "y"}],
                "heartbeatSeconds": 0,
                "policyProblems": [
                    {"namespace": "x", "name": "y", "reason": "A"}, {"generation": -1},
                    {"namespace": "x", "name": "y", "reason": "A", "message": "m"},
                ],
            }),
            &[
                "heartbeatSeconds: Invalid value: 0: must be between 1 and 3600",
                "versions[1]: Required value",
                "versions[2]: Duplicate value: \"1.3\"",
                "unimplemented[1].feature: Required value",
                "unimplemented[2]: Duplicate value: {\"feature\":\"SCTP\"}",
                "applied[1].namespace: Required value",
                "applied[1].name: Required value",
                "applied[1].generation: Invalid value: -1: must be greater than or equal to 0",
                "applied[2]: Duplicate value: {\"name\":\"y\",\"namespace\":\"x\"}",
                "policyProblems[1].namespace: Required value",
                "policyProblems[1].name: Required value",
                "policyProblems[1].reason: Required value",
                "policyProblems[1].generation: Invalid value: -1: must be greater than or equal to 0",
                "policyProblems[2]: Duplicate value: \
                 {\"message\":\"m\",\"name\":\"y\",\"namespace\":\"x\",\"reason\":\"A\"}",
            ],
        );
    }

    #[test]
    fn report_lists_have_length_limits() {
        let many = |count: usize| -> Value { (0..count).map(|at| json!(at.to_string())).collect() };
        let applied = |count: usize| -> Value {
            let policy = |at: usize| json!({"namespace": "x", "name": at.to_string()});
            (0..count).map(policy).collect()
        };
        let problems = |count: usize| -> Value {
            let problem =
                |at: usize| json!({"namespace": "x", "name": at.to_string(), "reason": "A"});
            (0..count).map(problem).collect()
        };
        check(
            json!({"versions": many(100), "applied": applied(10_000), "policyProblems": problems(1000)}),
            &[],
        );
        check(
            json!({
                "agent": "a".repeat(254), "bootID": "b".repeat(254), "problem": "p".repeat(32 * 1024 + 1),
                "versions": many(101), "unimplemented": many(101), "applied": applied(10_001),
                "policyProblems": problems(1001), "podsResourceVersion": "1".repeat(64),
            }),
            &[
                "agent: Too long: may not be more than 253 bytes",
                "bootID: Too long: may not be more than 253 bytes",
                "problem: Too long: may not be more than 32768 bytes",
                "podsResourceVersion: Too long: may not be more than 63 bytes",
                "versions: Too many: 101: must have at most 100 items",
                "unimplemented: Too many: 101: must have at most 100 items",
                "applied: Too many: 10001: must have at most 10000 items",
                "policyProblems: Too many: 1001: must have at most 1000 items",
            ],
        );
        check(
            json!({"versions": ["1".repeat(64)]}),
            &["versions[0]: Too long: may not be more than 63 bytes"],
        );
    }
}
