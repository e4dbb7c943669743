//! Declares `FlowSchema` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/flowcontrol/validation`.

use rhumb_meta::field::{BadValue, Error, ErrorList};
use rhumb_meta::{gotext, validation};

use super::conditions;
use crate::validation_helpers::checks;
use crate::{FieldView, GenerationPolicy, Kind, ResourceScope, ResourceStrategy, StrategyContext};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "FlowSchema",
        "flowschemas",
        "io.k8s.api.flowcontrol.v1.FlowSchema",
    )
    .generation(GenerationPolicy::ChangesTo(&["spec"]))
    .status()
    .strategy(FlowSchemaStrategy)
}

const PRECEDENCE_MAX: i64 = 10_000;
const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
];

#[derive(Debug)]
struct FlowSchemaStrategy;

impl ResourceStrategy for FlowSchemaStrategy {
    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate(object, errors);
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        _: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate(object, errors);
    }

    fn validate_status_update(
        &self,
        object: &FieldView<'_>,
        _: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        conditions::validate(&object.field("status"), errors);
    }
}

fn validate(object: &FieldView<'_>, errors: &mut ErrorList) {
    let (metadata, spec) = (object.field("metadata"), object.field("spec"));
    validate_precedence(&spec, metadata.field("name").str(), errors);
    let method = spec.field("distinguisherMethod");
    let kind = method.field("type");
    let supported = ["ByNamespace", "ByUser"];
    if method.exists() && !supported.contains(&kind.str()) {
        // Upstream reports the whole method, rendered as its internal type.
        let value = checks::go_struct_json(&[("Type", gotext::json(kind.str()))]);
        let value = BadValue::Rendered(value);
        errors.push(Error::not_supported(kind.path(), value, &supported));
    }
    let level = spec.field("priorityLevelConfiguration");
    let name = level.field("name");
    if name.is_empty() {
        name.required(errors, "must reference a priority level");
    } else {
        checks::push_problems(&name, validation::dns1123_subdomain(name.str()), errors);
    }
    for rule in spec.field("rules").items() {
        validate_rule(&rule, errors);
    }
    conditions::validate(&object.field("status"), errors);
}

fn validate_precedence(spec: &FieldView<'_>, name: &str, errors: &mut ErrorList) {
    let field = spec.field("matchingPrecedence");
    let precedence = field.int().unwrap_or(0);
    let mut refuse = |detail: String| errors.push(Error::invalid(field.path(), precedence, detail));
    if precedence <= 0 {
        refuse("must be a positive value".to_owned());
    }
    if precedence > PRECEDENCE_MAX {
        refuse(format!("must not be greater than {PRECEDENCE_MAX}"));
    }
    if precedence == 1 && name != "exempt" {
        refuse("only the schema named 'exempt' may have matchingPrecedence 1".to_owned());
    }
}

fn validate_rule(rule: &FieldView<'_>, errors: &mut ErrorList) {
    let subjects = rule.field("subjects");
    if subjects.is_empty() {
        subjects.required(errors, "subjects must contain at least one value");
    }
    for subject in subjects.items() {
        validate_subject(&subject, errors);
    }
    let (resources, others) = (rule.field("resourceRules"), rule.field("nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        rule.required(
            errors,
            "at least one of resourceRules and nonResourceRules has to be non-empty",
        );
    }
    for rule in resources.items() {
        validate_resource_rule(&rule, errors);
    }
    for rule in others.items() {
        validate_non_resource_rule(&rule, errors);
    }
}

/// Requires the field that `kind` names, and no other.
fn validate_subject(subject: &FieldView<'_>, errors: &mut ErrorList) {
    let kind = subject.field("kind");
    let kinds = ["ServiceAccount", "User", "Group"];
    let names = ["serviceAccount", "user", "group"];
    if !kinds.contains(&kind.str()) {
        checks::not_supported_text(&kind, &["Group", "ServiceAccount", "User"], errors);
        return;
    }
    let pairs = || kinds.into_iter().zip(names);
    for (_, name) in pairs().filter(|(wanted, _)| *wanted == kind.str()) {
        validate_subject_of(kind.str(), &subject.field(name), name, errors);
    }
    for (other, name) in pairs().filter(|(wanted, _)| *wanted != kind.str()) {
        let field = subject.field(name);
        if field.exists() {
            let detail = format!("{name} is forbidden when subject kind is not '{other}'");
            field.forbidden(errors, detail);
        }
    }
}

fn validate_subject_of(kind: &str, field: &FieldView<'_>, name: &str, errors: &mut ErrorList) {
    if !field.exists() {
        field.required(
            errors,
            format!("{name} is required when subject kind is '{kind}'"),
        );
        return;
    }
    let subject_name = field.field("name");
    if subject_name.is_empty() {
        subject_name.required(errors, "");
    }
    if kind != "ServiceAccount" {
        return;
    }
    if !matches!(subject_name.str(), "" | "*") {
        let problems = validation::dns1123_subdomain(subject_name.str());
        checks::push_problems(&subject_name, problems, errors);
    }
    let namespace = field.field("namespace");
    if namespace.is_empty() {
        namespace.required(errors, "must specify namespace for service account");
    } else {
        checks::push_problems(
            &namespace,
            validation::dns1123_label(namespace.str()),
            errors,
        );
    }
}

fn has_wildcard(list: &FieldView<'_>) -> bool {
    list.items().any(|item| item.str() == "*")
}

/// Requires `*` to be the only item. Returns whether the list has a `*`.
fn validate_wildcard(list: &FieldView<'_>, what: &str, errors: &mut ErrorList) -> bool {
    let has_wildcard = has_wildcard(list);
    if has_wildcard && list.len() > 1 {
        let detail = format!("if '*' is present, must not specify other {what}");
        list.invalid(errors, detail);
    }
    has_wildcard
}

fn validate_verbs(verbs: &FieldView<'_>, errors: &mut ErrorList) {
    if verbs.is_empty() {
        verbs.required(errors, "verbs must contain at least one value");
    }
    let has_wildcard = validate_wildcard(verbs, "verbs", errors);
    if !has_wildcard && verbs.items().any(|verb| !VERBS.contains(&verb.str())) {
        verbs.not_supported(errors, VERBS);
    }
}

fn validate_resource_rule(rule: &FieldView<'_>, errors: &mut ErrorList) {
    validate_verbs(&rule.field("verbs"), errors);
    let lists = [
        ("apiGroups", "api groups", "api group"),
        ("resources", "resources", "resource"),
    ];
    for (name, many, one) in lists {
        let list = rule.field(name);
        if list.is_empty() {
            list.required(
                errors,
                format!("resource rules must supply at least one {one}"),
            );
        }
        validate_wildcard(&list, many, errors);
    }
    let namespaces = rule.field("namespaces");
    if namespaces.is_empty() && !rule.field("clusterScope").is_true() {
        namespaces.required(
            errors,
            "resource rules that are not cluster scoped must supply at least one namespace",
        );
    } else if !validate_wildcard(&namespaces, "namespaces", errors) {
        for namespace in namespaces.items() {
            for problem in validation::dns1123_label(namespace.str()) {
                let detail =
                    format!("each member of this list must be '*' or a DNS-1123 label; {problem}");
                checks::invalid_text(&namespace, errors, detail);
            }
        }
    }
}

fn validate_non_resource_rule(rule: &FieldView<'_>, errors: &mut ErrorList) {
    validate_verbs(&rule.field("verbs"), errors);
    let urls = rule.field("nonResourceURLs");
    if urls.is_empty() {
        urls.required(errors, "nonResourceURLs must contain at least one value");
    }
    if !validate_wildcard(&urls, "non-resource URLs", errors) {
        for url in urls.items() {
            if let Some(problem) = url_problem(url.str()) {
                checks::invalid_text(&url, errors, problem);
            }
        }
    }
}

fn url_problem(path: &str) -> Option<&'static str> {
    let stars = path.matches('*').count();
    match path {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !path.starts_with('/') => Some("must start with slash"),
        _ if path.contains(' ') => Some("must not contain white-space"),
        _ if path.contains("//") => Some("must not contain double slash"),
        _ if stars > 1 || (stars == 1 && !path.ends_with("/*")) => {
            Some("wildcard can only do suffix matching")
        }
        _ => None,
    }
}
