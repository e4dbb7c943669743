//! What is accepted of a pod though it is old, useless or not what was meant.

mod containers;
mod volumes;

use std::net::Ipv6Addr;

use rhumb_meta::{Quantity, gotext, validation};

use super::{annotations, each_container};
use crate::View;
use crate::small::SmallSet;

/// Labels of nodes that others took the place of, and what to say of them.
const OLD_NODE_LABELS: &[(&str, &str)] = &[
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

const OLD_ANNOTATIONS: &[(&str, &str)] = &[
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

/// After so many warnings, parts of a pod are not compared with each other any more.
const WARNINGS_MAX: usize = 1000;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// What to say of a new pod.
pub fn pod_warnings(pod: &View<'_>, warnings: &mut Vec<String>) {
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

/// What to say of a template, or of the parts of a pod that a template has as well.
pub fn template_warnings(template: &View<'_>, warnings: &mut Vec<String>) {
    let (metadata, spec) = (template.field("metadata"), template.field("spec"));
    let index = spec.index();
    let spec = spec.with(&index);
    let notes = metadata.field("annotations");
    node_labels(&spec, warnings);
    spread(&spec.field("topologySpreadConstraints"), warnings);
    for (key, message) in OLD_ANNOTATIONS {
        if notes.has(key) {
            warnings.push(format!("{}: {message}", notes.key(key).path()));
        }
    }
    volumes::warn(&spec.field("volumes"), warnings);
    repeated(&spec.field("hostAliases"), "ip", warnings);
    repeated(&spec.field("imagePullSecrets"), "name", warnings);
    for secret in spec.field("imagePullSecrets").items() {
        let name = secret.field("name");
        if name.is_empty() {
            warnings.push(format!("{}: invalid empty name \"\"", name.path()));
        }
    }
    let overhead = spec.field("overhead");
    for resource in ["memory", "ephemeral-storage"] {
        whole_bytes(&overhead.key(resource), warnings);
    }
    old_profiles(&notes, &spec, warnings);
    containers::warn(&spec, warnings);
    let grace = spec.field("terminationGracePeriodSeconds");
    if grace.int().is_some_and(|seconds| seconds < 0) {
        warnings.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            grace.path()
        ));
    }
    affinity_selectors(&spec.field("affinity"), warnings);
    let dns = spec.field("dnsConfig");
    for server in dns.field("nameservers").items() {
        canonical_address(&server, warnings);
    }
    for alias in spec.field("hostAliases").items() {
        canonical_address(&alias.field("ip"), warnings);
    }
}

fn old_label(key: &str) -> Option<&'static str> {
    let mut labels = OLD_NODE_LABELS.iter();
    labels
        .find(|(label, _)| *label == key)
        .map(|(_, message)| *message)
}

fn node_labels(spec: &View<'_>, warnings: &mut Vec<String>) {
    for (key, label) in spec.field("nodeSelector").entries() {
        if let Some(message) = old_label(key) {
            warnings.push(format!("{}: {message}", label.path()));
        }
    }
    let affinity = spec.field("affinity");
    let nodes = affinity.field("nodeAffinity");
    let required = nodes.field(REQUIRED);
    for term in required.field("nodeSelectorTerms").items() {
        node_term(&term, false, warnings);
    }
    for term in nodes.field(PREFERRED).items() {
        node_term(&term.field("preference"), true, warnings);
    }
}

fn node_term(term: &View<'_>, check_values: bool, warnings: &mut Vec<String>) {
    for expression in term.field("matchExpressions").items() {
        let key = expression.field("key");
        if let Some(message) = old_label(key.str()) {
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

fn spread(constraints: &View<'_>, warnings: &mut Vec<String>) {
    for constraint in constraints.items() {
        let key = constraint.field("topologyKey");
        if let Some(message) = old_label(key.str()) {
            warnings.push(format!("{}: {} is {message}", key.path(), key.str()));
        }
        null_selector(&constraint, warnings);
    }
}

fn null_selector(owner: &View<'_>, warnings: &mut Vec<String>) {
    let selector = owner.field("labelSelector");
    if !selector.exists() {
        let path = selector.path();
        warnings.push(format!(
            "{path}: a null labelSelector results in matching no pod"
        ));
    }
}

fn affinity_selectors(affinity: &View<'_>, warnings: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.field(kind);
        for term in pods.field(REQUIRED).items() {
            null_selector(&term, warnings);
        }
        for weighted in pods.field(PREFERRED).items() {
            null_selector(&weighted.field("podAffinityTerm"), warnings);
        }
    }
}

/// Items of a list that should differ in a field and do not.
fn repeated(list: &View<'_>, field: &str, warnings: &mut Vec<String>) {
    let mut known = SmallSet::new();
    for item in list.items() {
        let value = item.text(field);
        if !known.insert(value) {
            let (path, value) = (item.path().child(field), gotext::quote(value));
            warnings.push(format!("{path}: duplicate {field} {value}"));
        }
    }
}

fn whole_bytes(amount: &View<'_>, warnings: &mut Vec<String>) {
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

/// Annotations that fields took the place of.
fn old_profiles(notes: &View<'_>, spec: &View<'_>, warnings: &mut Vec<String>) {
    if notes.is_empty() {
        return;
    }
    let seccomp = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
    let context = spec.field("securityContext");
    if notes.has(annotations::SECCOMP_POD) && !context.has("seccompProfile") {
        let path = notes.path().key(annotations::SECCOMP_POD);
        warnings.push(format!("{path}: {seccomp}"));
    }
    if !annotations::are_any_of_containers(notes) {
        return;
    }
    each_container(spec, |container| {
        let own = container.field("securityContext");
        let name = container.text("name");
        let key = format!("{}{name}", annotations::SECCOMP_CONTAINER);
        if notes.has(&key) && !own.has("seccompProfile") {
            warnings.push(format!("{}: {seccomp}", notes.path().key(&key)));
        }
        app_armor(notes, name, &own, &context, warnings);
    });
}

fn app_armor(
    notes: &View<'_>,
    container: &str,
    own: &View<'_>,
    of_pod: &View<'_>,
    warnings: &mut Vec<String>,
) {
    let key = format!("{}{container}", annotations::APP_ARMOR);
    if !notes.has(&key) {
        return;
    }
    let wanted = super::prepare::app_armor_profile(notes.text(&key));
    // By now the field of a container whose pod has the annotation alone was made from it.
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

fn canonical_address(view: &View<'_>, warnings: &mut Vec<String>) {
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
