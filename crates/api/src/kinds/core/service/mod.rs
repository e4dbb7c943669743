//! Declares `Service` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/core/validation`.

pub mod allocation;
mod allocation_ranges;
mod cluster_ips;
mod spec;
#[cfg(test)]
mod tests;
mod type_transitions;

use rhumb_meta::field::ErrorList;
use rhumb_meta::validation;

use crate::feature_gates::Feature;
use crate::{
    FieldView, JsonObject, Kind, NameRule, ResourceScope, ResourceStrategy, SelectableField,
    StrategyContext, SubresourceKind, Verb, checks, fields, ip_addresses, metadata,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "",
        "v1",
        "Service",
        "services",
        "io.k8s.api.core.v1.Service",
    )
    .returns_deleted()
    .short_names(&["svc"])
    .category("all")
    .storage("services/specs")
    .names(NameRule::KindSpecific)
    .creates_on_update()
    .selectable(SELECTABLE)
    .subresource(
        "proxy",
        SubresourceKind::NodeProxied,
        &[
            Verb::Create,
            Verb::Delete,
            Verb::Get,
            Verb::Patch,
            Verb::Update,
        ],
    )
    .with_subresource_object("", "v1", "ServiceProxyOptions")
    .status()
    .strategy(ServiceStrategy)
}

const SELECTABLE: &[SelectableField] = &[
    SelectableField::string("spec.clusterIP", "spec.clusterIP"),
    SelectableField::string("spec.type", "spec.type"),
];

const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";

#[derive(Debug)]
struct ServiceStrategy;

impl ResourceStrategy for ServiceStrategy {
    fn prepare_create(&self, object: &mut JsonObject, _: &StrategyContext<'_>) {
        drop_internal_traffic_policy(object);
    }

    fn prepare_update(&self, object: &mut JsonObject, old: &JsonObject, _: &StrategyContext<'_>) {
        type_transitions::drop_type_dependent_fields(object, old);
        drop_internal_traffic_policy(object);
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_name(object, request, errors);
        validate(object, None, request, errors);
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let (spec, old_spec) = (object.field("spec"), old.field("spec"));
        cluster_ips::validate_change(&spec, &old_spec, errors);
        type_transitions::validate_change(&spec, &old_spec, errors);
        validate(object, Some(old), request, errors);
    }

    fn validate_status_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_load_balancer(object, old, request, errors);
    }

    fn warnings(
        &self,
        object: &FieldView<'_>,
        _: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
        warn(object, warnings);
    }
}

/// Drops `internalTrafficPolicy` from an ExternalName service, which has no endpoints.
fn drop_internal_traffic_policy(service: &mut JsonObject) {
    if fields::text(service, "spec.type") == "ExternalName" {
        fields::remove(service, "spec.internalTrafficPolicy");
    }
}

fn validate_name(object: &FieldView<'_>, request: &StrategyContext<'_>, errors: &mut ErrorList) {
    let is_relaxed = request.gates.enabled(Feature::RelaxedServiceNameValidation);
    let rule = if is_relaxed {
        NameRule::DnsLabel
    } else {
        NameRule::DnsLabel1035
    };
    metadata::validate_name(&object.field("metadata"), rule, errors);
}

fn validate(
    object: &FieldView<'_>,
    old: Option<&FieldView<'_>>,
    request: &StrategyContext<'_>,
    errors: &mut ErrorList,
) {
    let metadata = object.field("metadata");
    let annotations = metadata.field("annotations");
    let (hints, mode) = (
        annotations.key(TOPOLOGY_HINTS),
        annotations.key(TOPOLOGY_MODE),
    );
    if hints.exists() && mode.exists() && hints.str() != mode.str() {
        let detail = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        checks::invalid_text(&mode, errors, detail);
    }
    spec::validate(object, old, request, errors);
}

/// Returns whether `clusterIP` is `None`.
fn is_headless(spec: &FieldView<'_>) -> bool {
    let addresses = spec.field("clusterIPs");
    addresses.len() == 1 && addresses.items().all(|address| address.str() == "None")
}

fn string_items<'a>(list: &'a FieldView<'a>) -> Vec<&'a str> {
    list.items().map(|item| item.str()).collect()
}

/// Returns whether the service can be reached from outside the cluster.
fn is_externally_accessible(spec: &FieldView<'_>) -> bool {
    match spec.field("type").str() {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !spec.field("externalIPs").is_empty(),
        _ => false,
    }
}

fn needs_health_check(spec: &FieldView<'_>) -> bool {
    spec.field("type").str() == "LoadBalancer"
        && spec.field("externalTrafficPolicy").str() == "Local"
}

fn validate_load_balancer(
    object: &FieldView<'_>,
    old: &FieldView<'_>,
    request: &StrategyContext<'_>,
    errors: &mut ErrorList,
) {
    let (status, old_status) = (object.field("status"), old.field("status"));
    let (balancer, old_balancer) = (
        status.field("loadBalancer"),
        old_status.field("loadBalancer"),
    );
    let ingress = balancer.field("ingress");
    if object.field("spec").field("type").str() != "LoadBalancer" {
        if !ingress.is_empty() {
            ingress.forbidden(
                errors,
                "may only be used when `spec.type` is 'LoadBalancer'",
            );
        }
        return;
    }
    let old_ingress = old_balancer.field("ingress");
    let known: Vec<String> = old_ingress
        .items()
        .map(|item| item.field("ip").str().to_owned())
        .collect();
    let is_strict = request.gates.enabled(Feature::StrictIPCIDRValidation);
    for point in ingress.items() {
        let ip = point.field("ip");
        if !ip.is_empty() && !known.iter().any(|known| known == ip.str()) {
            ip_addresses::validate(&ip, is_strict, errors);
        }
        let mode = point.field("ipMode");
        match (mode.exists(), ip.is_empty()) {
            (false, false) => mode.required(errors, "must be specified when `ip` is set"),
            (true, true) => mode.forbidden(errors, "may not be specified when `ip` is not set"),
            (true, false) => checks::one_of(&mode, &["Proxy", "VIP"], errors),
            (false, true) => {}
        }
        validate_hostname(&point.field("hostname"), errors);
    }
}

fn validate_hostname(hostname: &FieldView<'_>, errors: &mut ErrorList) {
    if hostname.is_empty() {
        return;
    }
    let found = validation::dns1123_subdomain(hostname.str());
    checks::push_problems(hostname, found, errors);
    if ip_addresses::parse_lax(hostname.str()).is_some() {
        checks::invalid_text(hostname, errors, "must be a DNS name, not an IP address");
    }
}

fn warn(object: &FieldView<'_>, warnings: &mut Vec<String>) {
    let metadata = object.field("metadata");
    if metadata.field("annotations").key(TOPOLOGY_HINTS).exists() {
        warnings.push(format!(
            "annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"
        ));
    }
    let spec = object.field("spec");
    let kind = spec.field("type");
    let address = spec.field("clusterIP");
    if !matches!(address.str(), "" | "None") {
        for address in spec.field("clusterIPs").items() {
            ip_addresses::warn(&address, warnings);
        }
    }
    let external = spec.field("externalIPs");
    let balancer = spec.field("loadBalancerIP");
    let is_headless = kind.str() == "ClusterIP" && address.str() == "None";
    if is_headless {
        let ignored = [
            ("loadBalancerIP", !balancer.is_empty()),
            ("externalIPs", !external.is_empty()),
            (
                "SessionAffinity",
                spec.field("sessionAffinity").str() != "None",
            ),
        ];
        for (name, _) in ignored.iter().filter(|(_, is_set)| *is_set) {
            warnings.push(format!("spec.{name} is ignored for headless services"));
        }
    }
    for address in external.items() {
        ip_addresses::warn(&address, warnings);
    }
    let is_name = kind.str() == "ExternalName";
    if !external.is_empty() && !is_headless && !is_name {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
                .to_owned(),
        );
    }
    ip_addresses::warn(&balancer, warnings);
    for block in spec.field("loadBalancerSourceRanges").items() {
        ip_addresses::warn_cidr(&block, warnings);
    }
    if is_name && !external.is_empty() {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !is_name && !spec.field("externalName").is_empty() {
        warnings
            .push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec.field("trafficDistribution").str() == "PreferClose" {
        warnings.push(
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\""
                .to_owned(),
        );
    }
}
