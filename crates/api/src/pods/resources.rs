//! Validation of resource requirements of containers and pods, and resource name classification.

use std::collections::{BTreeMap, BTreeSet};

use rhumb_meta::Quantity;
use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::validation;
use serde_json::Value;

use super::checks;
use crate::selectors::push_problems;
use crate::{FieldView, JsonObject};

const HUGE_PAGES_PREFIX: &str = "hugepages-";
/// Maximum number of known claim names listed in an error.
const CLAIMS_SHOWN_MAX: usize = 64;
const NOT_INTEGER: &str = "must be an integer";

/// Standard resource names, which have no domain.
const STANDARD_RESOURCES: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Standard resources with integer quantities.
const INTEGER_RESOURCES: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

pub(crate) fn is_huge_page(name: &str) -> bool {
    name.starts_with(HUGE_PAGES_PREFIX)
}

/// Returns whether the name is in the `kubernetes.io/` namespace or unqualified (upstream's `IsNativeResource`).
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Returns whether limits may exceed requests.
pub(crate) fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Returns whether it can be requested at the pod level.
pub(crate) fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_page(name)
}

/// Returns whether it is an extended resource.
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && validation::qualified_name(&format!("requests.{name}")).is_empty()
}

fn is_integer_resource(name: &str) -> bool {
    INTEGER_RESOURCES.contains(&name) || is_extended(name)
}

/// Whether requirements are those of a container or of the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResourceLevel {
    Container,
    Pod,
}

/// Validates limits, requests and claims. `claims` are the names of the resource claims of the pod.
pub(super) fn validate(
    requirements: &FieldView<'_>,
    level: ResourceLevel,
    claims: &BTreeSet<&str>,
    allow_indivisible: bool,
    errors: &mut ErrorList,
) {
    let limits = requirements.field("limits");
    let requests = requirements.field("requests");
    let (mut compute, mut huge_pages) = (false, false);
    for (name, amount) in limits.entries() {
        validate_amount(name, &amount, level, allow_indivisible, errors);
        compute |= matches!(name, "cpu" | "memory");
        huge_pages |= is_huge_page(name);
    }
    for (name, amount) in requests.entries() {
        let request = validate_amount(name, &amount, level, allow_indivisible, errors);
        compute |= matches!(name, "cpu" | "memory");
        huge_pages |= is_huge_page(name);
        validate_against_limit(name, request, &requests, &limits, errors);
    }
    if huge_pages && !compute {
        requirements.forbidden(errors, "HugePages require cpu or memory");
    }
    validate_claims(&requirements.field("claims"), claims, errors);
}

/// Validates a plain resource list, such as the overhead of a pod.
pub(super) fn validate_overhead(
    overhead: &FieldView<'_>,
    allow_indivisible: bool,
    errors: &mut ErrorList,
) {
    let limits = overhead.path().child("limits");
    let limits = FieldView::at(overhead.value(), limits);
    let (mut compute, mut huge_pages) = (false, false);
    for (name, amount) in limits.entries() {
        validate_amount(
            name,
            &amount,
            ResourceLevel::Container,
            allow_indivisible,
            errors,
        );
        compute |= matches!(name, "cpu" | "memory");
        huge_pages |= is_huge_page(name);
    }
    if huge_pages && !compute {
        overhead.forbidden(errors, "HugePages require cpu or memory");
    }
}

fn validate_amount(
    name: &str,
    amount: &FieldView<'_>,
    level: ResourceLevel,
    allow_indivisible: bool,
    errors: &mut ErrorList,
) -> Option<Quantity> {
    validate_name(name, amount.path(), level, errors);
    let quantity = checks::quantity(amount, errors)?;
    validate_value(name, &quantity, amount.path(), errors);
    if is_huge_page(name) && !allow_indivisible && !is_divisible(name, &quantity) {
        let detail = format!("{quantity} is not positive integer multiple of {name}");
        errors.push(Error::invalid(amount.path(), quantity.to_string(), detail));
    }
    Some(quantity)
}

/// Validates a quantity: not negative, and an integer if the resource requires it.
pub(crate) fn validate_value(
    name: &str,
    quantity: &Quantity,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    checks::non_negative_quantity(path, quantity, errors);
    if !quantity.is_integer() && is_integer_resource(name) {
        errors.push(Error::invalid(path, quantity.to_string(), NOT_INTEGER));
    }
}

pub(super) fn is_divisible(name: &str, quantity: &Quantity) -> bool {
    let size = name.strip_prefix(HUGE_PAGES_PREFIX).map(Quantity::parse);
    match size {
        Some(Ok(size)) if size.sign() > 0 && size.is_integer() => {
            quantity.value() % size.value() == 0
        }
        _ => false,
    }
}

fn validate_name(name: &str, path: &Path<'_>, level: ResourceLevel, errors: &mut ErrorList) {
    let is_common = matches!(name, "cpu" | "memory" | "ephemeral-storage");
    if is_common && level == ResourceLevel::Container {
        return;
    }
    let problems = validation::qualified_name(name);
    let mut is_wrong = !problems.is_empty();
    push_problems(errors, path, name, problems);
    let is_plain = !name.contains('/');
    let is_standard = STANDARD_RESOURCES.contains(&name)
        || is_huge_page(name)
        || name.starts_with("requests.hugepages-");
    if !is_wrong && is_plain && !is_standard {
        is_wrong = true;
        let detail = "must be a standard resource type or fully qualified";
        errors.push(Error::invalid(path, name, detail));
    }
    match level {
        ResourceLevel::Pod if !is_wrong && !is_pod_level(name) => {
            let supported = ["cpu", HUGE_PAGES_PREFIX, "memory"];
            errors.push(Error::not_supported(path, name, &supported));
        }
        ResourceLevel::Pod => {}
        ResourceLevel::Container if is_plain && !is_common && !is_huge_page(name) => {
            let detail = "must be a standard resource for containers";
            errors.push(Error::invalid(path, name, detail));
        }
        ResourceLevel::Container if !is_native(name) && !is_extended(name) => {
            let detail = "doesn't follow extended resource name standard";
            errors.push(Error::invalid(path, name, detail));
        }
        ResourceLevel::Container => {}
    }
}

fn validate_against_limit(
    name: &str,
    request: Option<Quantity>,
    requests: &FieldView<'_>,
    limits: &FieldView<'_>,
    errors: &mut ErrorList,
) {
    let overcommit = is_overcommit_allowed(name);
    let Some(limit) = limits.get(name) else {
        if !overcommit {
            limits.required(errors, "Limit must be set for non overcommitable resources");
        }
        return;
    };
    let (Some(request), Ok(limit)) = (request, Quantity::from_json(limit)) else {
        return;
    };
    let relation = if !overcommit && request != limit {
        "must be equal to"
    } else if request > limit {
        "must be less than or equal to"
    } else {
        return;
    };
    let detail = format!("{relation} {name} limit of {limit}");
    errors.push(Error::invalid(requests.path(), request.to_string(), detail));
}

/// Requires each claim to be one of the pod's, and rejects duplicates.
fn validate_claims(claims: &FieldView<'_>, known: &BTreeSet<&str>, errors: &mut ErrorList) {
    let mut whole: BTreeSet<&str> = BTreeSet::new();
    let mut parts: BTreeSet<(&str, &str)> = BTreeSet::new();
    for claim in claims.items() {
        let (name, request) = (claim.text("name"), claim.text("request"));
        if name.is_empty() {
            claim.required(errors, "");
            continue;
        }
        if whole.contains(name) {
            errors.push(Error::duplicate(claim.path(), name));
        } else if request.is_empty() {
            for _ in parts
                .range((name, "")..)
                .take_while(|(other, _)| *other == name)
            {
                errors.push(Error::duplicate(claim.path(), name));
            }
            whole.insert(name);
        } else {
            checks::dns_label(&claim.field("request"), errors);
            if !parts.insert((name, request)) {
                errors.push(Error::duplicate(claim.path(), format!("{name}/{request}")));
            }
        }
        if !known.contains(name) {
            errors.push(unknown_claim(claim.path(), name, known));
        }
    }
}

fn unknown_claim(path: &Path<'_>, name: &str, known: &BTreeSet<&str>) -> Error {
    let mut error = Error::not_found(path, name);
    "must be one of the names in pod.spec.resourceClaims".clone_into(&mut error.detail);
    if known.is_empty() {
        error.detail.push_str(" which is empty");
    } else {
        let names: Vec<&str> = known.iter().copied().take(CLAIMS_SHOWN_MAX).collect();
        error.detail.push_str(": ");
        error.detail.push_str(&names.join(", "));
        if known.len() > CLAIMS_SHOWN_MAX {
            error.detail.push_str(", ...");
        }
    }
    error
}

/// Validates pod-level resources against those of the containers.
pub(super) fn validate_pod_level(
    spec: &FieldView<'_>,
    claims: &BTreeSet<&str>,
    allow_indivisible: bool,
    errors: &mut ErrorList,
) {
    let resources = spec.field("resources");
    let Some(object) = spec.object().filter(|_| resources.exists()) else {
        return;
    };
    let os = spec.field("os");
    if os.text("name") == "windows" {
        resources.forbidden(errors, "may not be set for a windows pod");
        return;
    }
    if resources.has("claims") {
        let detail = "claims may not be set for Resources at pod-level";
        resources.field("claims").forbidden(errors, detail);
    }
    validate(
        &resources,
        ResourceLevel::Pod,
        claims,
        allow_indivisible,
        errors,
    );
    validate_sums(&resources, object, errors);
    validate_container_limits(spec, &resources, errors);
}

fn validate_sums(resources: &FieldView<'_>, spec: &JsonObject, errors: &mut ErrorList) {
    for list in ["requests", "limits"] {
        let amounts = resources.field(list);
        for (name, sum) in &AggregatedContainerResources::from_spec(spec, list).0 {
            let amount = amounts.key(name);
            let total = amount.value().map(Quantity::from_json);
            let Some(Ok(total)) = total else { continue };
            if *sum > total && (list == "requests" || is_huge_page(name)) {
                let detail =
                    format!("must be greater than or equal to aggregate container {list} of {sum}");
                errors.push(Error::invalid(amount.path(), total.to_string(), detail));
            }
        }
    }
}

fn validate_container_limits(
    spec: &FieldView<'_>,
    resources: &FieldView<'_>,
    errors: &mut ErrorList,
) {
    let totals = resources.field("limits");
    let containers = resources.path().child("containers");
    for (index, container) in spec.field("containers").items().enumerate() {
        let own = container.field("resources");
        for (name, limit) in own.field("limits").entries() {
            let (Some(limit), Some(total)) = (limit.value(), totals.get(name)) else {
                continue;
            };
            let (Ok(limit), Ok(total)) = (Quantity::from_json(limit), Quantity::from_json(total))
            else {
                continue;
            };
            if limit > total {
                let container = containers.index(index);
                let resource = container.key(name);
                let detail = format!("must be less than or equal to pod limits of {total}");
                errors.push(Error::invalid(
                    &resource.child("limits"),
                    limit.to_string(),
                    detail,
                ));
            }
        }
    }
}

/// Total requests or limits of the containers of a pod.
///
/// Containers run concurrently; init containers run one after the other, beside the sidecars.
#[derive(Debug)]
pub(crate) struct AggregatedContainerResources(BTreeMap<String, Quantity>);

impl AggregatedContainerResources {
    /// The sum of the `list` ("requests" or "limits") of each container.
    pub(crate) fn from_spec(spec: &JsonObject, list: &str) -> Self {
        let mut sum = BTreeMap::new();
        for container in containers(spec, "containers") {
            add_quantities(&mut sum, container_quantities(container, list));
        }
        let mut sidecars: BTreeMap<String, Quantity> = BTreeMap::new();
        let mut peak: BTreeMap<String, Quantity> = BTreeMap::new();
        for container in containers(spec, "initContainers") {
            let stays = container.get("restartPolicy").and_then(Value::as_str) == Some("Always");
            if stays {
                add_quantities(&mut sum, container_quantities(container, list));
                add_quantities(&mut sidecars, container_quantities(container, list));
                continue;
            }
            // Resources that it does not request itself are covered by the total of the sidecars.
            for (name, mut needed) in container_quantities(container, list) {
                if let Some(others) = sidecars.get(name) {
                    needed.add(others);
                }
                raise_to(&mut peak, name, needed);
            }
        }
        for (name, needed) in peak {
            raise_to(&mut sum, &name, needed);
        }
        AggregatedContainerResources(sum)
    }

    pub(crate) fn into_resource_list(self) -> JsonObject {
        let amounts = self.0.into_iter();
        amounts
            .map(|(name, amount)| (name, amount.to_string().into()))
            .collect()
    }
}

fn containers<'a>(spec: &'a JsonObject, list: &str) -> impl Iterator<Item = &'a JsonObject> {
    let items = spec.get(list).and_then(Value::as_array);
    items.into_iter().flatten().filter_map(Value::as_object)
}

/// The well-formed quantities of a container, by name.
pub(super) fn container_quantities<'a>(
    container: &'a JsonObject,
    list: &str,
) -> impl Iterator<Item = (&'a String, Quantity)> {
    let resources = container.get("resources");
    let amounts = resources
        .and_then(|resources| resources.get(list))
        .and_then(Value::as_object);
    amounts
        .into_iter()
        .flatten()
        .filter_map(|(name, amount)| Some((name, Quantity::from_json(amount).ok()?)))
}

fn add_quantities<'a>(
    sum: &mut BTreeMap<String, Quantity>,
    amounts: impl Iterator<Item = (&'a String, Quantity)>,
) {
    for (name, amount) in amounts {
        match sum.get_mut(name) {
            Some(total) => total.add(&amount),
            None => {
                sum.insert(name.clone(), amount);
            }
        }
    }
}

fn raise_to(peak: &mut BTreeMap<String, Quantity>, name: &str, amount: Quantity) {
    match peak.get_mut(name) {
        Some(highest) if *highest >= amount => {}
        Some(highest) => *highest = amount,
        None => {
            peak.insert(name.to_owned(), amount);
        }
    }
}
