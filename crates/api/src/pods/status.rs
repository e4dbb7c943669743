//! Validation of pod status updates by the kubelet and the scheduler.

use std::collections::{BTreeSet, HashMap, HashSet};

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::{Quantity, validation};
use serde_json::Value;

use super::{checks, resources, update};
use crate::FieldView;
use crate::selectors::push_problems;

const HEALTH_MESSAGE_MAX_BYTES: usize = 1024;
const STATUS_LISTS: [&str; 3] = [
    "containerStatuses",
    "initContainerStatuses",
    "ephemeralContainerStatuses",
];

/// Validates a status update.
pub fn validate_status_update(pod: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
    validate_annotations(pod, old, errors);
    let (status, old_status) = (pod.field("status"), old.field("status"));
    let (spec, old_spec) = (pod.field("spec"), old.field("spec"));
    conditions(&status.field("conditions"), errors);
    if spec.text("nodeName") != old_spec.text("nodeName") {
        let path = status.path().child("nodeName");
        errors.push(Error::forbidden(&path, "may not be changed directly"));
    }
    nominated_node(&status, &old_status, &old_spec, errors);
    observed_generation(&status, errors);
    if status.text("qosClass") != old_status.text("qosClass") {
        checks::invalid_text(&status.field("qosClass"), errors, "field is immutable");
    }
    state_transitions(&status, &old_status, &old_spec, errors);
    claim_statuses(&status, &spec, errors);
    extended_claim(&status.field("extendedResourceClaimStatus"), &spec, errors);
    node_allocatable_claims(&status, &spec, errors);
    addresses(&status, &old_status, "podIPs", errors);
    host_addresses(&status, &old_status, errors);
    let os = spec.field("os");
    let is_windows = os.text("name") == "windows";
    for list in STATUS_LISTS {
        for container in status.field(list).items() {
            user(&container.field("user"), is_windows, errors);
        }
    }
    allocated_resources(&status, &spec, errors);
}

/// Validates annotations only if relevant ones exist: status updates are frequent, and few pods have any.
fn validate_annotations(pod: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
    let (metadata, old_metadata) = (pod.field("metadata"), old.field("metadata"));
    let has_any = metadata.has("annotations") || old_metadata.has("annotations");
    if has_any {
        update::validate_annotations(pod, old, &update::options(old), errors);
    }
}

fn conditions(conditions: &FieldView<'_>, errors: &mut ErrorList) {
    for condition in conditions.items() {
        observed_generation(&condition, errors);
        let kind = condition.text("type");
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            let path = condition.path().child("Type");
            push_problems(errors, &path, kind, validation::qualified_name(kind));
        }
    }
}

fn observed_generation(owner: &FieldView<'_>, errors: &mut ErrorList) {
    if owner.number("observedGeneration") < 0 {
        let generation = owner.field("observedGeneration");
        checks::invalid_number(&generation, errors, "must be a non-negative integer");
    }
}

fn nominated_node(
    status: &FieldView<'_>,
    old: &FieldView<'_>,
    old_spec: &FieldView<'_>,
    errors: &mut ErrorList,
) {
    let node = status.field("nominatedNodeName");
    if node.is_empty() || node.str() == old.text("nominatedNodeName") {
        return;
    }
    checks::dns_subdomain(&node, errors);
    if !old_spec.text("nodeName").is_empty() {
        node.forbidden(
            errors,
            "may not be set on pods that are already bound to a node",
        );
    }
}

/// Rejects a restart of containers that have terminated and may not be restarted.
fn state_transitions(
    status: &FieldView<'_>,
    old: &FieldView<'_>,
    spec: &FieldView<'_>,
    errors: &mut ErrorList,
) {
    if !may_restart_all_containers(spec) {
        let lists = [
            ("containerStatuses", "containers"),
            ("initContainerStatuses", "initContainers"),
        ];
        for (statuses, containers) in lists {
            let containers = spec.field(containers);
            let by_name: HashMap<&str, FieldView<'_>> = containers
                .items()
                .map(|container| (container.text("name"), container))
                .collect();
            let restarts = |name: &str, code: i64| {
                let container = by_name.get(name);
                container.is_some_and(|container| should_restart(container, spec, code))
            };
            validate_terminated_not_restarted(status, old, statuses, restarts, errors);
        }
    }
    let never = |_: &str, _: i64| false;
    validate_terminated_not_restarted(status, old, "ephemeralContainerStatuses", never, errors);
}

fn may_restart_all_containers(spec: &FieldView<'_>) -> bool {
    ["initContainers", "containers"].into_iter().any(|list| {
        spec.field(list).items().any(|container| {
            let rules = container.field("restartPolicyRules");
            rules
                .items()
                .any(|rule| rule.text("action") == "RestartAllContainers")
        })
    })
}

fn should_restart(container: &FieldView<'_>, spec: &FieldView<'_>, code: i64) -> bool {
    let own = container.field("restartPolicy");
    if own.exists() && matches_rule(container, code) {
        return true;
    }
    let policy = if own.exists() {
        own.str()
    } else {
        spec.text("restartPolicy")
    };
    match policy {
        "OnFailure" => code != 0,
        "Never" => false,
        _ => true,
    }
}

fn matches_rule(container: &FieldView<'_>, code: i64) -> bool {
    container.field("restartPolicyRules").items().any(|rule| {
        let codes = rule.field("exitCodes");
        let is_listed = codes
            .field("values")
            .items()
            .any(|value| value.int() == Some(code));
        match codes.text("operator") {
            "In" => is_listed,
            "NotIn" => codes.exists() && !is_listed,
            _ => false,
        }
    })
}

/// Error paths have the index of the container in the old status.
fn validate_terminated_not_restarted(
    status: &FieldView<'_>,
    old: &FieldView<'_>,
    list: &str,
    restarts: impl Fn(&str, i64) -> bool,
    errors: &mut ErrorList,
) {
    let new = status.field(list);
    let mut by_name: HashMap<&str, FieldView<'_>> = HashMap::with_capacity(new.len());
    for container in new.items() {
        by_name.entry(container.text("name")).or_insert(container);
    }
    let (places, old) = (status.path().child(list), old.field(list));
    for (index, container) in old.items().enumerate() {
        let state = container.field("state");
        let Some(new) = by_name.get(container.text("name")) else {
            continue;
        };
        if !state.has("terminated") || new.field("state").has("terminated") {
            continue;
        }
        let code = state.field("terminated").number("exitCode");
        if !restarts(container.text("name"), code) {
            let place = places.index(index);
            let detail = "may not be transitioned to non-terminated state";
            errors.push(Error::forbidden(&place.child("state"), detail));
        }
    }
}

fn claim_statuses(status: &FieldView<'_>, spec: &FieldView<'_>, errors: &mut ErrorList) {
    let claims = spec.field("resourceClaims");
    let known: HashSet<&str> = claims.items().map(|claim| claim.text("name")).collect();
    let statuses = status.field("resourceClaimStatuses");
    let mut names = HashSet::new();
    for claim in statuses.items() {
        let name = claim.field("name");
        if !known.contains(name.str()) {
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            checks::invalid_text(&name, errors, detail);
        }
        if !names.insert(claim.text("name")) {
            errors.push(Error::duplicate(name.path(), name.str()));
        }
        let made = claim.field("resourceClaimName");
        if made.exists() {
            checks::dns_subdomain(&made, errors);
        }
    }
}

fn extended_claim(claim: &FieldView<'_>, spec: &FieldView<'_>, errors: &mut ErrorList) {
    if !claim.exists() {
        return;
    }
    let requests = requests_by_container(spec);
    let mappings = claim.field("requestMappings");
    if mappings.is_empty() {
        mappings.required(errors, "at least one request mapping is required");
    }
    let mut seen = HashSet::new();
    for mapping in mappings.items() {
        let parts = ["containerName", "resourceName", "requestName"];
        let (container, resource) = (mapping.field(parts[0]), mapping.field(parts[1]));
        match requests.get(container.str()) {
            Some(resources) if resources.contains(resource.str()) => {}
            Some(_) => checks::invalid_text(
                &resource,
                errors,
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests",
            ),
            None => checks::invalid_text(
                &container,
                errors,
                "must match the name of an entry in spec.initContainers.name or spec.containers.name",
            ),
        }
        let request = FieldView::at(mapping.get(parts[2]), claim.path().child(parts[2]));
        checks::dns_label(&request, errors);
        if !seen.insert(parts.map(|part| mapping.text(part))) {
            for part in parts {
                let part = mapping.field(part);
                errors.push(Error::duplicate(part.path(), part.str()));
            }
        }
    }
    let name = claim.field("resourceClaimName");
    if name.is_empty() {
        name.required(errors, "");
    } else {
        checks::dns_subdomain(&name, errors);
    }
}

/// Names of the requested resources by container.
fn requests_by_container(spec: &FieldView<'_>) -> HashMap<String, BTreeSet<String>> {
    let mut known = HashMap::new();
    for list in ["initContainers", "containers"] {
        for container in spec.field(list).items() {
            let own = container.field("resources");
            let requests = own.field("requests");
            let names = requests.entries().map(|(name, _)| name.to_owned());
            known.insert(container.text("name").to_owned(), names.collect());
        }
    }
    known
}

fn node_allocatable_claims(status: &FieldView<'_>, spec: &FieldView<'_>, errors: &mut ErrorList) {
    let lists = [
        spec.field("resourceClaims"),
        status.field("resourceClaimStatuses"),
    ];
    let known: HashSet<&str> = lists
        .iter()
        .flat_map(FieldView::items)
        .filter_map(|claim| claim.get("resourceClaimName")?.as_str())
        .collect();
    for claim in status.field("nodeAllocatableResourceClaimStatuses").items() {
        let name = claim.field("resourceClaimName");
        if name.is_empty() {
            name.required(errors, "must not be empty");
        }
        if !known.contains(name.str()) {
            checks::invalid_text(&name, errors, "no mapping found in pod reference");
        }
        for list in ["containers", "resources"] {
            if claim.field(list).is_empty() {
                claim.field(list).required(errors, "must not be empty");
            }
        }
        for (name, amount) in claim.field("resources").entries() {
            if !resources::is_native(name) {
                let detail = "must be a node allocatable resource name";
                errors.push(Error::invalid(amount.path(), name, detail));
            }
            let quantity = amount.value().map(Quantity::from_json);
            if let Some(Ok(quantity)) = quantity
                && quantity.is_negative()
            {
                let shown = quantity.to_string();
                errors.push(Error::invalid(amount.path(), shown, "must be non-negative"));
            }
        }
    }
}

/// Validates a list of IP addresses: at most one of each family.
fn addresses(status: &FieldView<'_>, old: &FieldView<'_>, list: &str, errors: &mut ErrorList) {
    let (list, old) = (status.field(list), old.field(list));
    let kept: HashSet<&str> = old.items().map(|item| item.text("ip")).collect();
    for item in list.items() {
        let address = item.text("ip");
        if !kept.contains(address) {
            checks::ip(item.path(), address, errors);
        }
    }
    if list.len() < 2 {
        return;
    }
    let dual_stack = checks::is_dual_stack(list.items().map(|item| item.text("ip")));
    if let Err(index) = dual_stack {
        let address = list.items().nth(index);
        let address = address.map_or("", |item| item.text("ip"));
        let detail =
            format!("failed to check for dual stack with error:invalid IP[{index}]: {address}");
        errors.push(Error::internal(list.path(), detail));
    }
    if dual_stack != Ok(true) || list.len() > 2 {
        let shown = checks::go_list(&list, |item| {
            checks::go_struct(item, &[("IP", "ip", "\"\"")])
        });
        let detail = "may specify no more than one IP for each IP family";
        errors.push(Error::invalid(list.path(), shown, detail));
    }
}

fn host_addresses(status: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
    let list = status.field("hostIPs");
    if let Some(first) = list.items().next()
        && first.text("ip") != status.text("hostIP")
    {
        checks::invalid_text(&first.field("ip"), errors, "must be equal to `hostIP`");
    }
    addresses(status, old, "hostIPs", errors);
}

fn user(user: &FieldView<'_>, is_windows: bool, errors: &mut ErrorList) {
    let linux = user.field("linux");
    if !linux.exists() {
        return;
    }
    if is_windows {
        linux.forbidden(errors, "cannot be set for a windows pod");
        return;
    }
    checks::id(&linux.field("uid"), errors);
    checks::id(&linux.field("gid"), errors);
    for group in linux.field("supplementalGroups").items() {
        checks::id(&group, errors);
    }
}

fn allocated_resources(status: &FieldView<'_>, spec: &FieldView<'_>, errors: &mut ErrorList) {
    let lists = [
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
    ];
    for (statuses, containers) in lists {
        let containers = spec.field(containers);
        let by_name: HashMap<&str, FieldView<'_>> = containers
            .items()
            .map(|container| (container.text("name"), container))
            .collect();
        for container in status.field(statuses).items() {
            let own = by_name.get(container.text("name"));
            for resource in container.field("allocatedResourcesStatus").items() {
                allocated_resource(&resource, own, errors);
            }
        }
    }
    for container in status.field("ephemeralContainerStatuses").items() {
        let allocated = container.field("allocatedResourcesStatus");
        if !allocated.is_empty() {
            allocated.forbidden(errors, "must not be specified in container status");
        }
    }
}

fn allocated_resource(
    resource: &FieldView<'_>,
    container: Option<&FieldView<'_>>,
    errors: &mut ErrorList,
) {
    let name = resource.field("name");
    if let Some(container) = container {
        let own = container.field("resources");
        let (is_known, detail) = match name.str().strip_prefix("claim:") {
            Some(claim) => (
                own.field("claims")
                    .items()
                    .any(|known| has_claim_named(&known, claim)),
                "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty",
            ),
            None => (
                own.field("requests").has(name.str()),
                "must match one of the container's resource requests",
            ),
        };
        if !is_known {
            checks::invalid_text(&name, errors, detail);
        }
    }
    let mut ids = HashSet::new();
    let devices = resource.field("resources");
    for device in devices.items() {
        let healths = ["Healthy", "Unhealthy", "Unknown"];
        checks::one_of(&device.field("health"), &healths, errors);
        let message = device.field("message");
        if message.exists() && message.is_empty() {
            message.required(errors, "must be non-empty if specified");
        } else if message.len() > HEALTH_MESSAGE_MAX_BYTES {
            errors.push(Error::too_long(message.path(), HEALTH_MESSAGE_MAX_BYTES));
        }
        let id = device.get("resourceID").and_then(Value::as_str);
        if !ids.insert(id) {
            let path = device.field("resourceID");
            errors.push(Error::duplicate(path.path(), id.unwrap_or_default()));
        }
    }
}

fn has_claim_named(known: &FieldView<'_>, name: &str) -> bool {
    let (claim, request) = name.split_once('/').unwrap_or((name, ""));
    known.text("name") == claim && known.text("request") == request
}
