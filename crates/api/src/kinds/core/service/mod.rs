//! Service.

pub mod allocation;
mod cluster_ips;
mod ranges;
mod spec;
#[cfg(test)]
mod tests;
mod transitions;

use rhumb_meta::field::ErrorList;
use rhumb_meta::validation;

use crate::gates::Feature;
use crate::{
    Kind, NameRule, Object, Request, Rules, Scope, Selectable, Selected, SubresourceKind, Verb,
    View, addresses, checks, fields, metadata,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "",
        "v1",
        "Service",
        "services",
        "io.k8s.api.core.v1.Service",
    )
    .returns_deleted()
    .short(&["svc"])
    .category("all")
    .storage("services/specs")
    .names(NameRule::Own)
    .updates_create()
    .selectable(SELECTABLE)
    .subresource(
        "proxy",
        SubresourceKind::Node,
        &[
            Verb::Create,
            Verb::Delete,
            Verb::Get,
            Verb::Patch,
            Verb::Update,
        ],
    )
    .speaks("", "v1", "ServiceProxyOptions")
    .status()
    .rules(ServiceRules)
}

const SELECTABLE: &[Selectable] = &[
    Selectable {
        name: "spec.clusterIP",
        value: Selected::Text("spec.clusterIP"),
    },
    Selectable {
        name: "spec.type",
        value: Selected::Text("spec.type"),
    },
];

const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";

#[derive(Debug)]
struct ServiceRules;

impl Rules for ServiceRules {
    fn prepare_create(&self, object: &mut Object, _: &Request<'_>) {
        drop_internal_policy(object);
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _: &Request<'_>) {
        transitions::drop_what_the_type_does_not_have(object, old);
        drop_internal_policy(object);
    }

    fn validate_create(&self, object: &View<'_>, request: &Request<'_>, errors: &mut ErrorList) {
        validate_name(object, request, errors);
        validate(object, None, request, errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        request: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        let (spec, old_spec) = (object.field("spec"), old.field("spec"));
        cluster_ips::validate_change(&spec, &old_spec, errors);
        transitions::validate_change(&spec, &old_spec, errors);
        validate(object, Some(old), request, errors);
    }

    fn validate_status_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        request: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        validate_load_balancer(object, old, request, errors);
    }

    fn warnings(&self, object: &View<'_>, _: Option<&View<'_>>, warnings: &mut Vec<String>) {
        warn(object, warnings);
    }
}

/// A name elsewhere has no endpoints here, so there is no policy for them.
fn drop_internal_policy(service: &mut Object) {
    if fields::text(service, "spec.type") == "ExternalName" {
        fields::remove(service, "spec.internalTrafficPolicy");
    }
}

fn validate_name(object: &View<'_>, request: &Request<'_>, errors: &mut ErrorList) {
    let is_relaxed = request.gates.enabled(Feature::RelaxedServiceNameValidation);
    let rule = if is_relaxed {
        NameRule::DnsLabel
    } else {
        NameRule::DnsLabel1035
    };
    metadata::validate_name(&object.field("metadata"), rule, errors);
}

fn validate(
    object: &View<'_>,
    old: Option<&View<'_>>,
    request: &Request<'_>,
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

/// Whether the service has no address of its own.
fn is_headless(spec: &View<'_>) -> bool {
    let addresses = spec.field("clusterIPs");
    addresses.len() == 1 && addresses.items().all(|address| address.str() == "None")
}

fn texts<'a>(list: &'a View<'a>) -> Vec<&'a str> {
    list.items().map(|item| item.str()).collect()
}

/// Whether anything outside the cluster can reach it.
fn is_externally_accessible(spec: &View<'_>) -> bool {
    match spec.field("type").str() {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !spec.field("externalIPs").is_empty(),
        _ => false,
    }
}

fn needs_health_check(spec: &View<'_>) -> bool {
    spec.field("type").str() == "LoadBalancer"
        && spec.field("externalTrafficPolicy").str() == "Local"
}

fn validate_load_balancer(
    object: &View<'_>,
    old: &View<'_>,
    request: &Request<'_>,
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
            addresses::validate(&ip, is_strict, errors);
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

fn validate_hostname(hostname: &View<'_>, errors: &mut ErrorList) {
    if hostname.is_empty() {
        return;
    }
    let found = validation::dns1123_subdomain(hostname.str());
    checks::problems(hostname, found, errors);
    if addresses::parse_lax(hostname.str()).is_some() {
        checks::invalid_text(hostname, errors, "must be a DNS name, not an IP address");
    }
}

fn warn(object: &View<'_>, warnings: &mut Vec<String>) {
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
            addresses::warn(&address, warnings);
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
        addresses::warn(&address, warnings);
    }
    let is_name = kind.str() == "ExternalName";
    if !external.is_empty() && !is_headless && !is_name {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
                .to_owned(),
        );
    }
    addresses::warn(&balancer, warnings);
    for block in spec.field("loadBalancerSourceRanges").items() {
        addresses::warn_block(&block, warnings);
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
