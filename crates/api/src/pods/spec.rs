//! Validation of a pod spec, in a pod or a template.

use std::cell::Cell;
use std::collections::BTreeSet;

use rhumb_meta::field::{BadValue, Error, ErrorList};

use super::{
    PodValidationOptions, affinity, annotations, checks, containers, for_each_container, probes,
    resources, scheduling, security, update, volumes, windows,
};
use crate::FieldView;
use crate::selectors::validate_labels;
use crate::small_map::SmallMap;

const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCHES_MAX_BYTES: usize = 2048;
const HOSTNAME_OVERRIDE_MAX_BYTES: usize = 64;
const DEADLINE_RANGE: &str = "must be between 1 and 2147483647, inclusive";

/// Validates a spec. `metadata` is that of the pod, and absent in a template.
pub(super) fn validate(
    spec: &FieldView<'_>,
    metadata: &FieldView<'_>,
    options: &PodValidationOptions,
    errors: &mut ErrorList,
) {
    let has_file_variables = validate_containers(spec, metadata, options, errors);
    host_network_ports(spec, options, errors);
    let policies = ["Always", "OnFailure", "Never"];
    checks::required_one_of(&spec.field("restartPolicy"), &policies, errors);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    checks::required_one_of(&spec.field("dnsPolicy"), &policies, errors);
    validate_labels(&spec.field("nodeSelector"), errors);
    security::validate_pod(spec, options, errors);
    pull_secrets(&spec.field("imagePullSecrets"), errors);
    affinity::validate(&spec.field("affinity"), options, errors);
    dns_config(spec, errors);
    for gate in spec.field("readinessGates").items() {
        checks::qualified_name(&gate.field("conditionType"), errors);
    }
    scheduling::validate_gates(&spec.field("schedulingGates"), errors);
    let constraints = spec.field("topologySpreadConstraints");
    scheduling::validate_spread(&constraints, options, errors);
    windows::validate_host_processes(spec, errors);
    host_users(spec, options, errors);
    hostname_override(spec, errors);
    names(spec, errors);
    scheduling::validate_tolerations(&spec.field("tolerations"), options, errors);
    host_aliases(&spec.field("hostAliases"), errors);
    classes(spec, options, errors);
    windows::validate_os(spec, errors);
    scheduling_group(&spec.field("schedulingGroup"), errors);
    if has_file_variables {
        file_variables(spec, errors);
    }
}

/// Validates volumes and containers. Returns whether any variable uses `fileKeyRef`.
fn validate_containers(
    spec: &FieldView<'_>,
    metadata: &FieldView<'_>,
    options: &PodValidationOptions,
    errors: &mut ErrorList,
) -> bool {
    let grace = spec.field("terminationGracePeriodSeconds");
    if !grace.exists() {
        grace.required(errors, "");
    }
    let volumes = spec.field("volumes");
    let context = volumes::VolumeValidationContext {
        options,
        pod_name: metadata.text("name"),
    };
    let volumes = volumes::validate(&volumes, &context, errors);
    let claims = spec.field("resourceClaims");
    let names = claims.items().map(|claim| claim.text("name"));
    let claim_names: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
    resource_claims(&claims, metadata, errors);
    let os = spec.field("os");
    let has_file_variables = Cell::new(false);
    let context = containers::ContainerValidationContext {
        volumes: &volumes,
        claims: &claim_names,
        probes: probes::HandlerValidationContext {
            grace_seconds: grace.int(),
            os: os.exists().then(|| os.text("name")),
        },
        restart_policy: spec.text("restartPolicy"),
        host_users: spec.field("hostUsers").opt_bool() != Some(false),
        options,
        has_file_variables: &has_file_variables,
    };
    let (regular, init) = (spec.field("containers"), spec.field("initContainers"));
    containers::validate(&regular, &context, errors);
    containers::validate_init(&init, &regular, &context, errors);
    let ephemeral = spec.field("ephemeralContainers");
    containers::validate_ephemeral(&ephemeral, &regular, &init, &context, errors);
    let allow_indivisible = options.allow_indivisible_huge_pages;
    resources::validate_pod_level(spec, &claim_names, allow_indivisible, errors);
    has_file_variables.get()
}

fn resource_claims(claims: &FieldView<'_>, metadata: &FieldView<'_>, errors: &mut ErrorList) {
    let is_static = metadata
        .field("annotations")
        .has(annotations::MIRROR_POD_ANNOTATION);
    let mut names = BTreeSet::new();
    for claim in claims.items() {
        if is_static {
            let detail = "static pods do not support resource claims";
            errors.push(update::pod_error_without_field(detail));
            continue;
        }
        let name = claim.field("name");
        if name.is_empty() {
            name.required(errors, "");
        } else if names.insert(claim.text("name")) {
            checks::dns_label(&name, errors);
        } else {
            errors.push(Error::duplicate(name.path(), name.str()));
        }
        let (direct, template) = (
            claim.field("resourceClaimName"),
            claim.field("resourceClaimTemplateName"),
        );
        if direct.exists() && template.exists() {
            invalid_claim(
                &claim,
                errors,
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            );
        }
        if !direct.exists() && !template.exists() {
            invalid_claim(
                &claim,
                errors,
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            );
        }
        for reference in [direct, template] {
            if reference.exists() {
                checks::dns_subdomain(&reference, errors);
            }
        }
    }
}

fn invalid_claim(claim: &FieldView<'_>, errors: &mut ErrorList, detail: &str) {
    let fields = [
        ("Name", "name", "\"\""),
        ("ResourceClaimName", "resourceClaimName", "null"),
        (
            "ResourceClaimTemplateName",
            "resourceClaimTemplateName",
            "null",
        ),
    ];
    let shown = BadValue::Rendered(checks::go_struct(claim, &fields));
    errors.push(Error::invalid(claim.path(), shown, detail));
}

/// With host networking, `hostPort` must equal `containerPort`. A template may omit it.
fn host_network_ports(
    spec: &FieldView<'_>,
    options: &PodValidationOptions,
    errors: &mut ErrorList,
) {
    if !spec.field("hostNetwork").is_true() {
        return;
    }
    for container in spec.field("containers").items() {
        for port in container.field("ports").items() {
            let host = port.number("hostPort");
            if (options.is_pod || host != 0) && host != port.number("containerPort") {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                checks::invalid_number(&port.field("hostPort"), errors, detail);
            }
        }
    }
}

fn pull_secrets(secrets: &FieldView<'_>, errors: &mut ErrorList) {
    for secret in secrets.items() {
        if secret
            .object()
            .is_some_and(|object| object.keys().any(|key| key != "name"))
        {
            secret.invalid(errors, "only name may be set");
        }
    }
}

fn dns_config(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let config = spec.field("dnsConfig");
    let (servers, searches) = (config.field("nameservers"), config.field("searches"));
    if spec.text("dnsPolicy") == "None" {
        if !config.exists() {
            config.required(errors, "must provide `dnsConfig` when `dnsPolicy` is None");
            return;
        }
        if servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            servers.required(errors, detail);
            return;
        }
    }
    if servers.len() > NAMESERVERS_MAX {
        servers.invalid(errors, "must not have more than 3 nameservers");
    }
    for server in servers.items() {
        checks::ip(server.path(), server.str(), errors);
    }
    if searches.len() > SEARCHES_MAX {
        searches.invalid(errors, "must not have more than 32 search paths");
    }
    let bytes: usize = searches.items().map(|search| search.len() + 1).sum();
    if bytes > SEARCHES_MAX_BYTES + 1 {
        let detail =
            "must not have more than 2048 characters (including spaces) in the search list";
        searches.invalid(errors, detail);
    }
    for search in searches.items() {
        if search.str() != "." {
            let domain = search.str().strip_suffix('.').unwrap_or(search.str());
            checks::search_domain(search.path(), domain, errors);
        }
    }
    for option in config.field("options").items() {
        if option.text("name").is_empty() {
            option.required(errors, "must not be empty");
        }
    }
}

/// Rejects host namespaces in a pod with its own user namespace.
fn host_users(spec: &FieldView<'_>, options: &PodValidationOptions, errors: &mut ErrorList) {
    const DETAIL: &str = "when `hostUsers` is false";
    if spec.field("hostUsers").opt_bool() != Some(false) {
        return;
    }
    let network = spec.field("hostNetwork");
    if network.is_true() && !options.allow_user_namespace_in_host_network {
        network.forbidden(errors, DETAIL);
    }
    for (field, shown) in [("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.field(field).is_true() {
            errors.push(Error::forbidden(&spec.path().child(shown), DETAIL));
        }
    }
    if options.allow_user_namespace_with_devices {
        return;
    }
    for_each_container(spec, |container| {
        let devices = container.field("volumeDevices");
        if !devices.is_empty() {
            devices.forbidden(errors, DETAIL);
        }
    });
}

fn hostname_override(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let name = spec.field("hostnameOverride");
    if !name.exists() {
        return;
    }
    if spec.field("setHostnameAsFQDN").is_true() {
        name.forbidden(
            errors,
            "may not be specified when setHostnameAsFQDN is true",
        );
    }
    if spec.field("hostNetwork").is_true() {
        name.forbidden(errors, "may not be specified when hostNetwork is true");
    }
    if name.len() > HOSTNAME_OVERRIDE_MAX_BYTES {
        errors.push(Error::too_long(name.path(), HOSTNAME_OVERRIDE_MAX_BYTES));
    }
    checks::dns_subdomain(&name, errors);
}

fn names(spec: &FieldView<'_>, errors: &mut ErrorList) {
    checks::optional_dns_subdomain(&spec.field("serviceAccountName"), errors);
    checks::optional_dns_subdomain(&spec.field("nodeName"), errors);
    let deadline = spec.field("activeDeadlineSeconds");
    if deadline
        .int()
        .is_some_and(|seconds| !(1..=i64::from(i32::MAX)).contains(&seconds))
    {
        checks::invalid_number(&deadline, errors, DEADLINE_RANGE);
    }
    for label in ["hostname", "subdomain"] {
        let label = spec.field(label);
        if !label.is_empty() {
            checks::dns_label(&label, errors);
        }
    }
}

fn host_aliases(aliases: &FieldView<'_>, errors: &mut ErrorList) {
    for alias in aliases.items() {
        checks::ip(alias.field("ip").path(), alias.text("ip"), errors);
        for name in alias.field("hostnames").items() {
            checks::dns_subdomain(&name, errors);
        }
    }
}

fn classes(spec: &FieldView<'_>, options: &PodValidationOptions, errors: &mut ErrorList) {
    checks::optional_dns_subdomain(&spec.field("priorityClassName"), errors);
    let runtime = spec.field("runtimeClassName");
    if runtime.exists() {
        checks::dns_subdomain(&runtime, errors);
    }
    let preemption = spec.field("preemptionPolicy");
    if preemption.exists() {
        let policies = ["PreemptLowerPriority", "Never"];
        checks::required_one_of(&preemption, &policies, errors);
    }
    let allow_indivisible = options.allow_indivisible_huge_pages;
    resources::validate_overhead(&spec.field("overhead"), allow_indivisible, errors);
}

fn scheduling_group(group: &FieldView<'_>, errors: &mut ErrorList) {
    if !group.exists() {
        return;
    }
    let name = group.field("podGroupName");
    if name.exists() {
        checks::dns_subdomain(&name, errors);
    } else {
        name.invalid(errors, "must specify one of: `podGroupName`");
    }
}

/// Requires the volume of a `fileKeyRef` to be an `emptyDir`.
fn file_variables(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let volumes = spec.field("volumes");
    let volumes: SmallMap<&str, bool> = volumes
        .items()
        .map(|volume| (volume.text("name"), volume.has("emptyDir")))
        .collect();
    for_each_container(spec, |container| {
        for variable in container.field("env").items() {
            let source = variable.field("valueFrom");
            if !source.has("fileKeyRef") {
                continue;
            }
            let file = source.field("fileKeyRef");
            let name = file.field("volumeName");
            match volumes.get(&name.str()) {
                Some(true) => {}
                Some(false) => {
                    let detail = "referenced volume must be of type emptyDir";
                    checks::invalid_text(&name, errors, detail);
                }
                None => errors.push(Error::not_found(name.path(), name.str())),
            }
        }
    });
}
