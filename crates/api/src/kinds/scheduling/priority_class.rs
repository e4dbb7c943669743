//! Declares `PriorityClass` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/scheduling/validation`.

use rhumb_meta::field::{Error, ErrorList};

use crate::{
    FieldView, GenerationPolicy, Kind, ResourceScope, ResourceStrategy, StrategyContext, checks,
};

const USER_MAX: i64 = 1_000_000_000;
const SYSTEM_PREFIX: &str = "system-";

/// The built-in classes and their values.
const SYSTEM_CLASSES: [(&str, i64); 2] = [
    ("system-node-critical", 2 * USER_MAX + 1000),
    ("system-cluster-critical", 2 * USER_MAX),
];

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        "priorityclasses",
        "io.k8s.api.scheduling.v1.PriorityClass",
    )
    .short_names(&["pc"])
    .generation(GenerationPolicy::AlwaysOne)
    .strategy(PriorityClassStrategy)
}

#[derive(Debug)]
struct PriorityClassStrategy;

impl ResourceStrategy for PriorityClassStrategy {
    fn deletion_forbidden_reason(&self, name: &str) -> Option<&'static str> {
        let is_system = SYSTEM_CLASSES.iter().any(|(class, _)| *class == name);
        is_system.then_some("this is a system priority class and cannot be deleted")
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let metadata = object.field("metadata");
        let (name, value) = (metadata.field("name"), object.field("value"));
        if name.str().starts_with(SYSTEM_PREFIX) {
            if let Some(problem) = system_problem(object, name.str()) {
                let detail = format!(
                    "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {problem}"
                );
                name.forbidden(errors, detail);
            }
        } else if value.int().is_some_and(|value| value > USER_MAX) {
            let detail = format!("maximum allowed value of a user defined priority is {USER_MAX}");
            value.forbidden(errors, detail);
        }
        let policy = object.field("preemptionPolicy");
        if policy.exists() && policy.is_empty() {
            policy.required(errors, "");
        } else if policy.exists() {
            checks::one_of(&policy, &["PreemptLowerPriority", "Never"], errors);
        }
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let (value, old_value) = (object.field("value"), old.field("value"));
        if value.int().unwrap_or_default() != old_value.int().unwrap_or_default() {
            let detail = "may not be changed in an update.";
            errors.push(Error::forbidden(value.path(), detail));
        }
        let policy = object.field("preemptionPolicy");
        checks::immutable(&policy, &old.field("preemptionPolicy"), errors);
    }
}

fn system_problem(object: &FieldView<'_>, name: &str) -> Option<String> {
    let known = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name);
    let Some((_, value)) = known else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if object.field("value").int() != Some(*value) {
        return Some(format!("value of {name} PriorityClass must be {value}"));
    }
    let is_default = object.field("globalDefault").is_true();
    is_default.then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::{check_create, check_update, kind};

    fn check(name: &str, value: i64, want: &[&str]) {
        let object = json!({"metadata": {"name": name}, "value": value});
        check_create(&kind("scheduling.k8s.io", "PriorityClass"), object, want);
    }

    #[test]
    fn system_class_names_are_reserved() {
        check("high", 1_000_000_000, &[]);
        check("system-node-critical", 2_000_001_000, &[]);
        check(
            "high",
            1_000_000_001,
            &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
        );
        let reserved = "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system \
                        use only. error: ";
        check(
            "system-x",
            1,
            &[&format!(
                "{reserved}system-x is not a known system priority class"
            )],
        );
        check(
            "system-cluster-critical",
            1,
            &[&format!(
                "{reserved}value of system-cluster-critical PriorityClass must be 2000000000"
            )],
        );
    }

    #[test]
    fn value_and_preemption_policy_are_immutable() {
        let class = |value: i64, policy: &str| json!({"value": value, "preemptionPolicy": policy});
        let check = |patch: Value, want: &[&str]| {
            let priority_class = kind("scheduling.k8s.io", "PriorityClass");
            check_update(&priority_class, class(1, "Never"), patch, want);
        };
        check(json!({"description": "x"}), &[]);
        check(
            class(2, "PreemptLowerPriority"),
            &[
                "value: Forbidden: may not be changed in an update.",
                "preemptionPolicy: Invalid value: \"PreemptLowerPriority\": field is immutable",
            ],
        );
    }
}
