//! Validation of containers, init containers and ephemeral containers.

use std::cell::Cell;
use std::collections::BTreeSet;

use rhumb_meta::field::{Error, ErrorList};
use serde_json::Value;

use super::mounts::{self, VolumeKindsByName};
use super::resources::{self, ResourceLevel};
use super::{PodValidationOptions, checks, env, probes, security};
use crate::FieldView;
use crate::small_map::SmallSet;

const RESTART_POLICY_REQUIRED: &str = "must specify restartPolicy when restart rules are used";
const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;

/// What the validation of a container needs from its pod.
pub(super) struct ContainerValidationContext<'a> {
    pub(super) volumes: &'a VolumeKindsByName<'a>,
    /// Names of the resource claims of the pod.
    pub(super) claims: &'a BTreeSet<&'a str>,
    pub(super) probes: probes::HandlerValidationContext<'a>,
    pub(super) restart_policy: &'a str,
    /// Whether the pod uses the user namespace of the host.
    pub(super) host_users: bool,
    pub(super) options: &'a PodValidationOptions,
    /// Set if any container has a variable with `fileKeyRef`, which is rare.
    pub(super) has_file_variables: &'a Cell<bool>,
}

/// Fields that ephemeral containers may have.
const EPHEMERAL_FIELDS: &[&str] = &[
    "name",
    "image",
    "command",
    "args",
    "workingDir",
    "envFrom",
    "env",
    "volumeMounts",
    "volumeDevices",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "imagePullPolicy",
    "securityContext",
    "stdin",
    "stdinOnce",
    "tty",
    "targetContainerName",
];

pub(super) fn validate(
    containers: &FieldView<'_>,
    context: &ContainerValidationContext<'_>,
    errors: &mut ErrorList,
) {
    if containers.is_empty() {
        containers.required(errors, "");
        return;
    }
    let mut names = SmallSet::with_capacity(containers.len());
    for item in containers.items() {
        let index = item.index();
        let container = item.with_index(&index);
        validate_common(&container, context, errors);
        unique_name(&item, &mut names, errors);
        probes::validate(&container, context.probes, errors);
        restart_policy(&container, errors);
    }
    let mut ports = SmallSet::new();
    for container in containers.items() {
        host_ports(&container, &mut ports, errors);
    }
}

fn unique_name<'a>(
    container: &FieldView<'a>,
    names: &mut SmallSet<&'a str>,
    errors: &mut ErrorList,
) {
    let name = container.text("name");
    if !names.insert(name) {
        errors.push(Error::duplicate(container.field("name").path(), name));
    }
}

pub(super) fn validate_init(
    containers: &FieldView<'_>,
    regular: &FieldView<'_>,
    context: &ContainerValidationContext<'_>,
    errors: &mut ErrorList,
) {
    if containers.is_empty() {
        return;
    }
    let mut names: SmallSet<&str> = regular
        .items()
        .map(|container| container.text("name"))
        .collect();
    for item in containers.items() {
        let index = item.index();
        let container = item.with_index(&index);
        validate_common(&container, context, errors);
        if container.has("restartPolicy") {
            restart_policy(&container, errors);
        } else if !container.field("restartPolicyRules").is_empty() {
            let policy = container.field("restartPolicy");
            policy.required(errors, RESTART_POLICY_REQUIRED);
        }
        let name = item.text("name");
        if !name.is_empty() || names.contains(&name) {
            unique_name(&item, &mut names, errors);
        }
        // Each one is validated on its own for port conflicts, because init containers run one after the other.
        let first = containers.path().index(0);
        let alone = FieldView::at(container.value(), first);
        host_ports(&alone, &mut SmallSet::new(), errors);
        let is_sidecar = container.text("restartPolicy") == "Always";
        if is_sidecar {
            probes::validate(&container, context.probes, errors);
        } else {
            reject_probes(&container, errors);
            reject_restart_rules(&container, context.options, errors);
        }
    }
}

fn reject_probes(container: &FieldView<'_>, errors: &mut ErrorList) {
    for field in [
        "lifecycle",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
    ] {
        if container.has(field) {
            let detail = "may not be set for init containers without restartPolicy=Always";
            container.field(field).forbidden(errors, detail);
        }
    }
}

fn reject_restart_rules(
    container: &FieldView<'_>,
    options: &PodValidationOptions,
    errors: &mut ErrorList,
) {
    if options.allow_restart_of_init_containers {
        return;
    }
    for policy in container.field("resizePolicy").items() {
        if policy.text("restartPolicy") == "RestartContainer" {
            let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            checks::invalid_text(&policy.field("restartPolicy"), errors, detail);
        }
    }
}

pub(super) fn validate_ephemeral(
    containers: &FieldView<'_>,
    regular: &FieldView<'_>,
    init: &FieldView<'_>,
    context: &ContainerValidationContext<'_>,
    errors: &mut ErrorList,
) {
    if containers.is_empty() {
        return;
    }
    let all = || regular.items().chain(init.items());
    let others: SmallSet<&str> = all().map(|container| container.text("name")).collect();
    let mut names: SmallSet<&str> = all().map(|container| container.text("name")).collect();
    for container in containers.items() {
        validate_common(&container, context, errors);
        reject_image_whitespace(&container, errors);
        unique_name(&container, &mut names, errors);
        let target = container.field("targetContainerName");
        if !target.is_empty() && !others.contains(&target.str()) {
            errors.push(Error::not_found(target.path(), target.str()));
        }
        reject_non_ephemeral_fields(&container, errors);
    }
}

fn reject_non_ephemeral_fields(container: &FieldView<'_>, errors: &mut ErrorList) {
    const FORBIDDEN: &str = "cannot be set for an Ephemeral Container";
    for (name, value) in container.object().into_iter().flatten() {
        let view = FieldView::at(Some(value), container.path().child(name));
        // Probes and hooks count as set even if they are empty.
        let is_set = view.exists() && (name != "resources" || !view.is_empty());
        if is_set && !EPHEMERAL_FIELDS.contains(&name.as_str()) {
            view.forbidden(errors, FORBIDDEN);
        }
    }
    for mount in container.field("volumeMounts").items() {
        for field in ["subPath", "subPathExpr"] {
            let path = mount.field(field);
            if !path.is_empty() {
                path.forbidden(errors, FORBIDDEN);
            }
        }
    }
}

/// Rejects image names with surrounding whitespace, in pods but not in templates.
pub(super) fn reject_image_whitespace(container: &FieldView<'_>, errors: &mut ErrorList) {
    let image = container.field("image");
    if image.str().trim().len() != image.len() {
        checks::invalid_text(
            &image,
            errors,
            "must not have leading or trailing whitespace",
        );
    }
}

fn validate_common(
    container: &FieldView<'_>,
    context: &ContainerValidationContext<'_>,
    errors: &mut ErrorList,
) {
    checks::required_dns_label(&container.field("name"), errors);
    checks::required(&container.field("image"), errors);
    let policies = ["File", "FallbackToLogsOnError"];
    checks::required_one_of(
        &container.field("terminationMessagePolicy"),
        &policies,
        errors,
    );
    validate_ports(&container.field("ports"), errors);
    if env::validate(&container.field("env"), errors) {
        context.has_file_variables.set(true);
    }
    env::validate_from(&container.field("envFrom"), errors);
    mounts::validate(container, context.volumes, errors);
    let policies = ["Always", "IfNotPresent", "Never"];
    checks::required_one_of(&container.field("imagePullPolicy"), &policies, errors);
    let allow_indivisible = context.options.allow_indivisible_huge_pages;
    let resources = container.field("resources");
    resources::validate(
        &resources,
        ResourceLevel::Container,
        context.claims,
        allow_indivisible,
        errors,
    );
    resize_policies(
        &container.field("resizePolicy"),
        context.restart_policy,
        errors,
    );
    let security = container.field("securityContext");
    security::validate_container(&security, context.host_users, errors);
}

fn validate_ports(ports: &FieldView<'_>, errors: &mut ErrorList) {
    let mut names = SmallSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.is_empty() {
            let before = errors.len();
            checks::port_name(&name, errors);
            if errors.len() == before && !names.insert(port.text("name")) {
                errors.push(Error::duplicate(name.path(), name.str()));
            }
        }
        let number = port.field("containerPort");
        if number.int().unwrap_or_default() == 0 {
            number.required(errors, "");
        } else {
            checks::port_number(&number, errors);
        }
        let host = port.field("hostPort");
        if host.int().unwrap_or_default() != 0 {
            checks::port_number(&host, errors);
        }
        checks::required_one_of(&port.field("protocol"), &["SCTP", "TCP", "UDP"], errors);
    }
}

/// Rejects duplicate host ports.
fn host_ports<'a>(
    container: &FieldView<'a>,
    taken: &mut SmallSet<(&'a str, &'a str, i64)>,
    errors: &mut ErrorList,
) {
    let ports = container.path().child("ports");
    let items = container.get("ports").and_then(Value::as_array);
    for (index, port) in items.into_iter().flatten().enumerate() {
        let text = |name| port.get(name).and_then(Value::as_str).unwrap_or_default();
        let number = port.get("hostPort").and_then(Value::as_i64);
        let Some(number) = number.filter(|number| *number != 0) else {
            continue;
        };
        let (protocol, address) = (text("protocol"), text("hostIP"));
        if !taken.insert((protocol, address, number)) {
            let port = ports.index(index);
            let shown = format!("{protocol}/{address}/{number}");
            errors.push(Error::duplicate(&port.child("hostPort"), shown));
        }
    }
}

/// As upstream, errors are reported at the list.
fn resize_policies(policies: &FieldView<'_>, restart_policy: &str, errors: &mut ErrorList) {
    let mut resources = SmallSet::new();
    for policy in policies.items() {
        let resource = policy.text("resourceName");
        if !resources.insert(resource) {
            errors.push(Error::duplicate(policy.path(), resource));
        }
        let resource = FieldView::at(policy.get("resourceName"), *policies.path());
        checks::required_one_of(&resource, &["cpu", "memory"], errors);
        let restart = FieldView::at(policy.get("restartPolicy"), *policies.path());
        checks::required_one_of(&restart, &["NotRequired", "RestartContainer"], errors);
        if restart_policy == "Never" && restart.str() != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            checks::invalid_text(&restart, errors, detail);
        }
    }
}

fn restart_policy(container: &FieldView<'_>, errors: &mut ErrorList) {
    let (policy, rules) = (
        container.field("restartPolicy"),
        container.field("restartPolicyRules"),
    );
    if policy.exists() {
        checks::one_of(&policy, &["Always", "Never", "OnFailure"], errors);
    } else if !rules.is_empty() {
        policy.required(errors, RESTART_POLICY_REQUIRED);
    }
    restart_rules(&rules, errors);
}

fn restart_rules(rules: &FieldView<'_>, errors: &mut ErrorList) {
    if rules.len() > RULES_MAX {
        errors.push(Error::too_many(rules.path(), Some(rules.len()), RULES_MAX));
    }
    for rule in rules.items() {
        let actions = ["Restart", "RestartAllContainers"];
        checks::one_of(&rule.field("action"), &actions, errors);
        let codes = rule.field("exitCodes");
        if !codes.exists() {
            codes.required(errors, "must be specified");
            continue;
        }
        checks::one_of(&codes.field("operator"), &["In", "NotIn"], errors);
        let values = codes.field("values");
        if values.len() > EXIT_CODES_MAX {
            errors.push(Error::too_many(
                values.path(),
                Some(values.len()),
                EXIT_CODES_MAX,
            ));
        }
    }
}
