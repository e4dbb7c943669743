//! Warnings about exclusion rules that have no effect, or too much: rules that no request can match, and webhooks whose
//! rules are excluded entirely. There is no upstream counterpart.

use serde_json::Value;

use crate::critical_resources::ServedResource;
use crate::match_attributes::{Operation, is_namespaces_resource};
use crate::rule::{OmittedListMeaning, RuleWithOperations};

/// The maximum number of warnings about one object.
const WARNINGS_MAX: usize = 10;

/// Longer names are not compared with those of resources.
const NAME_LENGTH_MAX: usize = 63;

/// Checks the exclusion rules of one object against the resources that the server serves.
#[derive(Debug)]
pub struct ExclusionRuleCheck<'a> {
    resources: &'a [ServedResource<'a>],
    warnings: Vec<String>,
}

impl<'a> ExclusionRuleCheck<'a> {
    pub fn new(resources: &'a [ServedResource<'a>]) -> ExclusionRuleCheck<'a> {
        ExclusionRuleCheck {
            resources,
            warnings: Vec::new(),
        }
    }

    /// Checks the rules in `matching`: a webhook, the `matchConstraints` of a policy, or the `matchResources` of a
    /// binding. `rules_field` is its list of rules that include.
    pub fn check(&mut self, matching: &Value, rules_field: &str, path: &str) {
        let exclusions = items(&matching["excludeResourceRules"]);
        for (index, rule) in exclusions.iter().enumerate() {
            let path = format!("{path}.excludeResourceRules[{index}]");
            self.check_rule(rule, &path);
        }
        let included = parse(items(&matching[rules_field]), OmittedListMeaning::Nothing);
        let unconditional: Vec<Value> = exclusions
            .iter()
            .filter(|rule| is_unconditional(rule))
            .cloned()
            .collect();
        let excluded = parse(&unconditional, OmittedListMeaning::Everything);
        if !excluded.is_empty() && self.excludes_all(&included, &excluded) {
            self.warn(format!(
                "{path}: excludeResourceRules exclude every request that {rules_field} match, so it is never called"
            ));
        }
    }

    /// The warnings, at most ten.
    pub fn into_warnings(mut self) -> Vec<String> {
        let more = self.warnings.len().saturating_sub(WARNINGS_MAX);
        self.warnings.truncate(WARNINGS_MAX);
        if more > 0 {
            let text = format!("excludeResourceRules: {more} more warnings are not shown");
            self.warnings.push(text);
        }
        self.warnings
    }

    fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    fn check_rule(&mut self, rule: &Value, path: &str) {
        for (index, name) in texts(&rule["resourceNames"]).enumerate() {
            if name == "*" {
                self.warn(format!(
                    "{path}.resourceNames[{index}]: is the literal name \"*\", which no object has; omit resourceNames \
                     to match all names"
                ));
            }
        }
        let patterns: Vec<&str> = texts(&rule["resources"]).collect();
        let mut has_unknown = false;
        for (index, pattern) in patterns.iter().enumerate() {
            let mut alone = rule.clone();
            alone["resources"] = serde_json::json!([pattern]);
            if let Some(problem) = self.resource_problem(&alone, pattern) {
                has_unknown = true;
                self.warn(format!("{path}.resources[{index}]: {problem}"));
            }
        }
        if has_unknown {
            return;
        }
        if let Some(problem) = self.reach_problem(rule) {
            self.warn(format!("{path}: matches no request: {problem}"));
        }
    }

    /// Why a rule with this pattern alone matches none of the served resources.
    fn resource_problem(&self, rule: &Value, pattern: &str) -> Option<String> {
        let parsed = RuleWithOperations::from_json(rule, OmittedListMeaning::Everything);
        let covers = |known: &ServedResource<'_>| {
            parsed.matches_resource(&known.names.resource, known.subresource)
        };
        if self.resources.iter().any(covers) {
            return None;
        }
        let (resource, subresource) = pattern.split_once('/').unwrap_or((pattern, ""));
        let same_name = |known: &&ServedResource<'_>| {
            resource == "*" || known.names.resource.resource == resource
        };
        let mut of_name = self.resources.iter().filter(same_name).peekable();
        if of_name.peek().is_none() {
            return Some(self.unknown_resource(resource, subresource));
        }
        let same_subresource =
            |known: &&ServedResource<'_>| subresource == "*" || known.subresource == subresource;
        let Some(known) = of_name.find(same_subresource) else {
            return Some(format!("{resource} have no subresource \"{subresource}\""));
        };
        let served = &known.names.resource;
        let groups: Vec<&str> = texts(&rule["apiGroups"]).collect();
        let has_group = groups.is_empty() || groups.contains(&"*");
        if has_group || groups.contains(&&*served.group) {
            return Some(format!(
                "{resource} are served in version {}, not in {}",
                served.version,
                texts(&rule["apiVersions"]).collect::<Vec<_>>().join(", ")
            ));
        }
        Some(format!(
            "{resource} are in the API group {:?}, not in {}",
            &*served.group,
            groups
                .iter()
                .map(|group| format!("{group:?}"))
                .collect::<Vec<_>>()
                .join(", ")
        ))
    }

    /// The problem of a resource that is not served, with the most similar one that is.
    fn unknown_resource(&self, resource: &str, subresource: &str) -> String {
        let suffix = match subresource {
            "" => String::new(),
            subresource => format!("/{subresource}"),
        };
        let main = || self.resources.iter().filter(|it| it.subresource.is_empty());
        if let Some((name, group)) = resource.split_once('.') {
            let meant = main().find(|known| {
                known.names.resource.resource == name && known.names.resource.group == group
            });
            if meant.is_some() {
                return format!(
                    "matches no resource that is served; did you mean \"{name}{suffix}\" with apiGroups [{group:?}]?"
                );
            }
        }
        if resource.len() > NAME_LENGTH_MAX {
            return "matches no resource that is served".to_owned();
        }
        let lower = resource.to_ascii_lowercase();
        let meant = main()
            .find(|known| known.names.kind.kind.eq_ignore_ascii_case(&lower))
            .or_else(|| {
                main()
                    .map(|known| (edit_distance(&known.names.resource.resource, &lower), known))
                    .filter(|(distance, _)| *distance <= 2)
                    .min_by_key(|(distance, _)| *distance)
                    .map(|(_, known)| known)
            });
        match meant {
            Some(known) => format!(
                "matches no resource that is served; did you mean \"{}{suffix}\"?",
                known.names.resource.resource
            ),
            None => "matches no resource that is served".to_owned(),
        }
    }

    /// Why a rule whose resources are all served matches no request nevertheless: its operations or its scope.
    fn reach_problem(&self, rule: &Value) -> Option<String> {
        let parsed = RuleWithOperations::from_json(rule, OmittedListMeaning::Everything);
        let covered = || {
            self.resources
                .iter()
                .filter(|known| parsed.matches_resource(&known.names.resource, known.subresource))
        };
        covered().next()?;
        let has_operation = |known: &&ServedResource<'_>| {
            let mut operations = known.operations.iter();
            operations.any(|operation| parsed.has_operation(*operation))
        };
        if !covered().any(|known| has_operation(&known)) {
            if texts(&rule["operations"]).eq(["CONNECT"]) {
                return Some(
                    "CONNECT requests are for subresources: list them, such as pods/exec"
                        .to_owned(),
                );
            }
            let mut served: Vec<Operation> = covered()
                .flat_map(|known| known.operations.clone())
                .collect();
            served.sort_unstable();
            served.dedup();
            let served: Vec<&str> = served.into_iter().map(Operation::as_str).collect();
            return Some(match served.is_empty() {
                true => "these resources can only be read".to_owned(),
                false => format!("these resources support only {}", served.join(", ")),
            });
        }
        let in_namespace = |known: &&ServedResource<'_>| {
            known.is_namespaced && !is_namespaces_resource(&known.names.resource)
        };
        let needs_namespace = rule["scope"] == "Namespaced"
            || texts(&rule["namespaces"]).next().is_some()
            || !rule["namespaceSelector"].is_null();
        if needs_namespace && !covered().any(|known| in_namespace(&known)) {
            return Some("these resources are not in namespaces".to_owned());
        }
        if rule["scope"] == "Cluster" && covered().all(|known| in_namespace(&known)) {
            return Some("these resources are in namespaces".to_owned());
        }
        None
    }

    fn excludes_all(
        &self,
        included: &[RuleWithOperations],
        excluded: &[RuleWithOperations],
    ) -> bool {
        let mut is_matched = false;
        for known in self.resources {
            for &operation in &known.operations {
                let matches = |rule: &RuleWithOperations| {
                    rule.has_operation(operation)
                        && rule.matches_resource(&known.names.resource, known.subresource)
                        && rule.has_scope_of(&known.names.resource, known.is_namespaced)
                };
                if included.iter().any(matches) {
                    is_matched = true;
                    if !excluded.iter().any(matches) {
                        return false;
                    }
                }
            }
        }
        is_matched
    }
}

fn parse(rules: &[Value], absent: OmittedListMeaning) -> Vec<RuleWithOperations> {
    rules
        .iter()
        .map(|rule| RuleWithOperations::from_json(rule, absent))
        .collect()
}

/// Whether a rule excludes its resources regardless of names and namespaces.
fn is_unconditional(rule: &Value) -> bool {
    texts(&rule["resourceNames"]).next().is_none()
        && texts(&rule["namespaces"]).next().is_none()
        && rule["namespaceSelector"].is_null()
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    items(list).iter().filter_map(Value::as_str)
}

/// The number of characters to insert, delete or replace.
fn edit_distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, character) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for column in 1..row.len() {
            let replaced = diagonal + usize::from(character != other[column - 1]);
            diagonal = row[column];
            row[column] = replaced.min(diagonal + 1).min(row[column - 1] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use rhumb_meta::{GroupVersionKind, GroupVersionResource};
    use serde_json::json;

    use super::*;
    use crate::match_attributes::ResourceAndKind;

    fn names() -> Vec<(ResourceAndKind, &'static str, bool, Vec<Operation>)> {
        let writes = vec![Operation::Create, Operation::Update, Operation::Delete];
        let name =
            |group: &'static str, plural: &'static str, kind: &'static str| ResourceAndKind {
                resource: GroupVersionResource::new(group, "v1", plural),
                kind: GroupVersionKind::new(group, "v1", kind),
            };
        vec![
            (name("", "pods", "Pod"), "", true, writes.clone()),
            (
                name("", "pods", "PodExecOptions"),
                "exec",
                true,
                vec![Operation::Connect],
            ),
            (name("", "nodes", "Node"), "", false, writes.clone()),
            (
                name("", "nodes", "Node"),
                "status",
                false,
                vec![Operation::Update],
            ),
            (
                name("", "namespaces", "Namespace"),
                "",
                false,
                writes.clone(),
            ),
            (
                name("apps", "deployments", "Deployment"),
                "",
                true,
                writes.clone(),
            ),
            (
                name("coordination.k8s.io", "leases", "Lease"),
                "",
                true,
                writes,
            ),
        ]
    }

    fn warnings(webhook: &Value) -> Vec<String> {
        let names = names();
        let resources: Vec<ServedResource<'_>> = names
            .iter()
            .map(
                |(names, subresource, is_namespaced, operations)| ServedResource {
                    names,
                    equivalents: &[],
                    subresource,
                    is_namespaced: *is_namespaced,
                    operations: operations.clone(),
                },
            )
            .collect();
        let mut check = ExclusionRuleCheck::new(&resources);
        check.check(webhook, "rules", "w");
        check.into_warnings()
    }

    const ALL: &str = r#"[{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]"#;

    fn excluding(rule: Value) -> Value {
        let rules: Value = serde_json::from_str(ALL).expect("valid JSON");
        json!({"rules": rules, "excludeResourceRules": [rule]})
    }

    #[test]
    fn rules_that_never_match_are_reported_with_the_correct_spelling() {
        let at = "w.excludeResourceRules[0]";
        for (rule, expect) in [
            (
                json!({"resources": ["pod"]}),
                ".resources[0]: matches no resource that is served; did you mean \"pods\"?",
            ),
            (
                json!({"resources": ["podz"]}),
                ".resources[0]: matches no resource that is served; did you mean \"pods\"?",
            ),
            (
                json!({"resources": ["pods", "Deployment"]}),
                ".resources[1]: matches no resource that is served; did you mean \"deployments\"?",
            ),
            (
                json!({"resources": ["leases.coordination.k8s.io"]}),
                ".resources[0]: matches no resource that is served; did you mean \"leases\" with apiGroups [\"coordination.k8s.io\"]?",
            ),
            (
                json!({"resources": ["widgets"]}),
                ".resources[0]: matches no resource that is served",
            ),
            (
                json!({"apiGroups": [""], "resources": ["deployments"]}),
                ".resources[0]: deployments are in the API group \"apps\", not in \"\"",
            ),
            (
                json!({"apiVersions": ["v2"], "resources": ["pods"]}),
                ".resources[0]: pods are served in version v1, not in v2",
            ),
            (
                json!({"resources": ["pods/logs"]}),
                ".resources[0]: pods have no subresource \"logs\"",
            ),
            (
                json!({"operations": ["CONNECT"]}),
                ": matches no request: CONNECT requests are for subresources: list them, such as pods/exec",
            ),
            (
                json!({"operations": ["CREATE"], "resources": ["nodes/status"]}),
                ": matches no request: these resources support only UPDATE",
            ),
            (
                json!({"resources": ["nodes"], "namespaces": ["a"]}),
                ": matches no request: these resources are not in namespaces",
            ),
            (
                json!({"resources": ["namespaces"], "scope": "Namespaced"}),
                ": matches no request: these resources are not in namespaces",
            ),
            (
                json!({"resources": ["pods"], "scope": "Cluster"}),
                ": matches no request: these resources are in namespaces",
            ),
            (
                json!({"resources": ["pods"], "resourceNames": ["*"]}),
                ".resourceNames[0]: is the literal name \"*\", which no object has; omit resourceNames to match all names",
            ),
        ] {
            assert_eq!(
                warnings(&excluding(rule.clone())),
                [format!("{at}{expect}")],
                "{rule}"
            );
        }
        for rule in [
            json!({"resources": ["pods", "*/exec", "nodes/*"]}),
            json!({"namespaces": ["a"]}),
            json!({"operations": ["CONNECT"], "resources": ["*/*"]}),
            json!({"resources": ["pods"], "resourceNames": ["a"]}),
        ] {
            assert_eq!(warnings(&excluding(rule.clone())), [""; 0], "{rule}");
        }
    }

    #[test]
    fn webhooks_whose_rules_are_all_excluded_are_reported() {
        let webhook = |rule: Value, exclusions: Value| {
            let mut rule = rule;
            rule["apiGroups"] = json!(["*"]);
            rule["apiVersions"] = json!(["*"]);
            json!({"rules": [rule], "excludeResourceRules": exclusions})
        };
        let pods = json!({"operations": ["CREATE"], "resources": ["pods"]});
        let expect =
            "w: excludeResourceRules exclude every request that rules match, so it is never called";
        for (exclusions, is_reported) in [
            (json!([{"resources": ["pods"]}]), true),
            (
                json!([{"operations": ["CREATE"], "resources": ["*"], "scope": "Namespaced"}]),
                true,
            ),
            (
                json!([{"operations": ["UPDATE"], "resources": ["pods"]}]),
                false,
            ),
            (json!([{"resources": ["pods"], "namespaces": ["a"]}]), false),
            (
                json!([{"resources": ["pods"], "resourceNames": ["a"]}]),
                false,
            ),
            (json!([{"resources": ["nodes"]}]), false),
        ] {
            let found = warnings(&webhook(pods.clone(), exclusions.clone()));
            assert_eq!(
                found,
                Vec::from_iter(is_reported.then_some(expect)),
                "{exclusions}"
            );
        }
        let many: Vec<Value> = (0..30).map(|_| json!({"resources": ["podz"]})).collect();
        let found = warnings(&webhook(pods, many.into()));
        assert_eq!(found.len(), 11);
        assert_eq!(
            found[10],
            "excludeResourceRules: 20 more warnings are not shown"
        );
    }
}
