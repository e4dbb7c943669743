//! Warnings about valid pods: deprecated, ineffective or probably mistaken values. Upstream:
//! `pkg/api/pod/warnings.go`.

mod containers;
mod volumes;

use std::net::Ipv6Addr;

use rhumb_meta::{Quantity, gotext, validation};

use super::{annotations, for_each_container};
use crate::FieldView;
use crate::small_map::SmallSet;

/// Deprecated node labels and the warnings about them.
const DEPRECATED_NODE_LABELS: &[(&str, &str)] = &[
    (
        "beta.kubernetes.io/arch",
        "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
    ),
    (
        "beta.kubernetes.io/os",
        "deprecated since v1.14; use \"kubernetes.io/os\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    (
        "node-role.kubernetes.io/master",
        "use \"node-role.kubernetes.io/control-plane\" instead",
    ),
];

const DEPRECATED_ANNOTATIONS: &[(&str, &str)] = &[
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

/// Limit on warnings: above it, pairwise comparisons stop.
const WARNINGS_MAX: usize = 1000;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Adds the warnings for a new pod.
pub fn pod_warnings(pod: &FieldView<'_>, warnings: &mut Vec<String>) {
    let metadata = pod.field("metadata");
    let problems = validation::dns1123_label(metadata.text("name"));
    if !problems.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
            problems.join(" ")
        ));
    }
    template_warnings(pod, warnings);
}

/// Adds the warnings for a template, or for the parts of a pod that a template also has.
pub fn template_warnings(template: &FieldView<'_>, warnings: &mut Vec<String>) {
    let (metadata, spec) = (template.field("metadata"), template.field("spec"));
    let index = spec.index();
    let spec = spec.with_index(&index);
    let notes = metadata.field("annotations");
    warn_of_node_labels(&spec, warnings);
    warn_of_spread_constraints(&spec.field("topologySpreadConstraints"), warnings);
    for (key, message) in DEPRECATED_ANNOTATIONS {
        if notes.has(key) {
            warnings.push(format!("{}: {message}", notes.key(key).path()));
        }
    }
    volumes::warn(&spec.field("volumes"), warnings);
    warn_of_duplicates(&spec.field("hostAliases"), "ip", warnings);
    warn_of_duplicates(&spec.field("imagePullSecrets"), "name", warnings);
    for secret in spec.field("imagePullSecrets").items() {
        let name = secret.field("name");
        if name.is_empty() {
            warnings.push(format!("{}: invalid empty name \"\"", name.path()));
        }
    }
    let overhead = spec.field("overhead");
    for resource in ["memory", "ephemeral-storage"] {
        warn_of_fractional_bytes(&overhead.key(resource), warnings);
    }
    warn_of_profile_annotations(&notes, &spec, warnings);
    containers::warn(&spec, warnings);
    let grace = spec.field("terminationGracePeriodSeconds");
    if grace.int().is_some_and(|seconds| seconds < 0) {
        warnings.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            grace.path()
        ));
    }
    warn_of_affinity_selectors(&spec.field("affinity"), warnings);
    let dns = spec.field("dnsConfig");
    for server in dns.field("nameservers").items() {
        warn_of_non_canonical_ip(&server, warnings);
    }
    for alias in spec.field("hostAliases").items() {
        warn_of_non_canonical_ip(&alias.field("ip"), warnings);
    }
}

fn deprecated_label_warning(key: &str) -> Option<&'static str> {
    let mut labels = DEPRECATED_NODE_LABELS.iter();
    labels
        .find(|(label, _)| *label == key)
        .map(|(_, message)| *message)
}

fn warn_of_node_labels(spec: &FieldView<'_>, warnings: &mut Vec<String>) {
    for (key, label) in spec.field("nodeSelector").entries() {
        if let Some(message) = deprecated_label_warning(key) {
            warnings.push(format!("{}: {message}", label.path()));
        }
    }
    let affinity = spec.field("affinity");
    let nodes = affinity.field("nodeAffinity");
    let required = nodes.field(REQUIRED);
    for term in required.field("nodeSelectorTerms").items() {
        warn_of_node_term(&term, false, warnings);
    }
    for term in nodes.field(PREFERRED).items() {
        warn_of_node_term(&term.field("preference"), true, warnings);
    }
}

fn warn_of_node_term(term: &FieldView<'_>, check_values: bool, warnings: &mut Vec<String>) {
    for expression in term.field("matchExpressions").items() {
        let key = expression.field("key");
        if let Some(message) = deprecated_label_warning(key.str()) {
            warnings.push(format!("{}: {} is {message}", key.path(), key.str()));
        }
        if !check_values {
            continue;
        }
        for value in expression.field("values").items() {
            for problem in validation::label_value(value.str()) {
                let (path, value) = (value.path(), value.str());
                warnings.push(format!("{path}: {value} is invalid, {problem}"));
            }
        }
    }
}

fn warn_of_spread_constraints(constraints: &FieldView<'_>, warnings: &mut Vec<String>) {
    for constraint in constraints.items() {
        let key = constraint.field("topologyKey");
        if let Some(message) = deprecated_label_warning(key.str()) {
            warnings.push(format!("{}: {} is {message}", key.path(), key.str()));
        }
        warn_of_null_selector(&constraint, warnings);
    }
}

fn warn_of_null_selector(owner: &FieldView<'_>, warnings: &mut Vec<String>) {
    let selector = owner.field("labelSelector");
    if !selector.exists() {
        let path = selector.path();
        warnings.push(format!(
            "{path}: a null labelSelector results in matching no pod"
        ));
    }
}

fn warn_of_affinity_selectors(affinity: &FieldView<'_>, warnings: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.field(kind);
        for term in pods.field(REQUIRED).items() {
            warn_of_null_selector(&term, warnings);
        }
        for weighted in pods.field(PREFERRED).items() {
            warn_of_null_selector(&weighted.field("podAffinityTerm"), warnings);
        }
    }
}

/// Warns of items of a list with the same value of a field.
fn warn_of_duplicates(list: &FieldView<'_>, field: &str, warnings: &mut Vec<String>) {
    let mut known = SmallSet::new();
    for item in list.items() {
        let value = item.text(field);
        if !known.insert(value) {
            let (path, value) = (item.path().child(field), gotext::quote(value));
            warnings.push(format!("{path}: duplicate {field} {value}"));
        }
    }
}

fn warn_of_fractional_bytes(amount: &FieldView<'_>, warnings: &mut Vec<String>) {
    let Some(Ok(quantity)) = amount.value().map(Quantity::from_json) else {
        return;
    };
    if !quantity.is_integer() {
        warnings.push(format!(
            "{}: fractional byte value \"{quantity}\" is invalid, must be an integer",
            amount.path()
        ));
    }
}

/// Warns of annotations that fields have replaced.
fn warn_of_profile_annotations(
    notes: &FieldView<'_>,
    spec: &FieldView<'_>,
    warnings: &mut Vec<String>,
) {
    if notes.is_empty() {
        return;
    }
    let seccomp = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
    let context = spec.field("securityContext");
    if notes.has(annotations::SECCOMP_POD) && !context.has("seccompProfile") {
        let path = notes.path().key(annotations::SECCOMP_POD);
        warnings.push(format!("{path}: {seccomp}"));
    }
    if !annotations::has_container_annotations(notes) {
        return;
    }
    for_each_container(spec, |container| {
        let own = container.field("securityContext");
        let name = container.text("name");
        let key = format!("{}{name}", annotations::SECCOMP_CONTAINER);
        if notes.has(&key) && !own.has("seccompProfile") {
            warnings.push(format!("{}: {seccomp}", notes.path().key(&key)));
        }
        warn_of_app_armor_annotation(notes, name, &own, &context, warnings);
    });
}

fn warn_of_app_armor_annotation(
    notes: &FieldView<'_>,
    container: &str,
    own: &FieldView<'_>,
    of_pod: &FieldView<'_>,
    warnings: &mut Vec<String>,
) {
    let key = format!("{}{container}", annotations::APP_ARMOR);
    if !notes.has(&key) {
        return;
    }
    let wanted = super::prepare::app_armor_profile(notes.text(&key));
    // If only the annotation was set, preparation has already set the field from it.
    let own = own.get("appArmorProfile");
    let is_from_annotation = own.is_none() || own == wanted.as_ref();
    let is_said_by_pod = wanted.is_some() && of_pod.get("appArmorProfile") == wanted.as_ref();
    if is_from_annotation && !is_said_by_pod {
        let path = notes.path().key(&key);
        warnings.push(format!(
            "{path}: deprecated since v1.30; use the \"appArmorProfile\" field instead"
        ));
    }
}

fn warn_of_non_canonical_ip(view: &FieldView<'_>, warnings: &mut Vec<String>) {
    let Ok(address) = view.str().parse::<Ipv6Addr>() else {
        return;
    };
    let canonical = address.to_string();
    if canonical != view.str() {
        warnings.push(format!(
            "{}: IPv6 address {} should be in RFC 5952 canonical format ({})",
            view.path(),
            gotext::quote(view.str()),
            gotext::quote(&canonical)
        ));
    }
}
