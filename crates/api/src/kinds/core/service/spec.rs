//! Validation of the spec of a service.

use std::collections::BTreeSet;

use rhumb_meta::field::{BadValue, Error, ErrorList};
use rhumb_meta::{gotext, validation};

use super::{cluster_ips, is_externally_accessible, is_headless, needs_health_check, string_items};
use crate::feature_gates::Feature;
use crate::{FieldView, StrategyContext, checks, ip_addresses, selectors};

const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const ONLY_LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";
const AFFINITY_SECONDS_MAX: i64 = 86400;

pub(super) fn validate(
    object: &FieldView<'_>,
    old: Option<&FieldView<'_>>,
    request: &StrategyContext<'_>,
    errors: &mut ErrorList,
) {
    let nothing = crate::JsonObject::new();
    let none = FieldView::root(&nothing);
    let old = old.unwrap_or(&none);
    let (spec, old_spec) = (object.field("spec"), old.field("spec"));
    let is_strict = request.gates.enabled(Feature::StrictIPCIDRValidation);
    validate_type_fields(&spec, errors);
    validate_ports(&spec, errors);
    selectors::validate_labels(&spec.field("selector"), errors);
    validate_affinity(&spec, errors);
    cluster_ips::validate(&spec, &old_spec, is_strict, errors);
    validate_external_ips(&spec, &old_spec, is_strict, errors);
    let kind = spec.field("type");
    if kind.is_empty() {
        kind.required(errors, "");
    } else {
        checks::one_of(
            &kind,
            &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
            errors,
        );
    }
    validate_port_numbers(&spec, errors);
    validate_source_ranges(object, old, is_strict, errors);
    validate_load_balancer_fields(&spec, errors);
    validate_load_balancer_class(&spec, errors);
    validate_traffic(&spec, errors);
}

fn validate_type_fields(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let kind = spec.field("type");
    let (ports, cluster_ips) = (spec.field("ports"), spec.field("clusterIPs"));
    if ports.is_empty() && !is_headless(spec) && kind.str() != "ExternalName" {
        ports.required(errors, "");
    }
    match kind.str() {
        "LoadBalancer" | "NodePort" if is_headless(spec) => {
            for first in cluster_ips.items() {
                let detail = format!("may not be set to 'None' for {} services", kind.str());
                checks::invalid_text(&first, errors, detail);
            }
        }
        "ExternalName" => {
            for name in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                let field = spec.field(name);
                if !field.is_empty() {
                    field.forbidden(errors, "may not be set for ExternalName services");
                }
            }
            validate_external_name(&spec.field("externalName"), errors);
        }
        _ => {}
    }
}

/// The name may end with a dot (fully qualified).
fn validate_external_name(field: &FieldView<'_>, errors: &mut ErrorList) {
    let name = field.str().strip_suffix('.').unwrap_or(field.str());
    if name.is_empty() {
        return field.required(errors, "");
    }
    for problem in validation::dns1123_subdomain(name) {
        errors.push(Error::invalid(field.path(), name, problem));
    }
}

fn validate_ports(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let ports = spec.field("ports");
    let mut names = BTreeSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.is_empty() {
            checks::push_problems(&name, validation::dns1123_label(name.str()), errors);
            if !names.insert(name.str().to_owned()) {
                name.duplicate(errors);
            }
        } else if ports.len() > 1 {
            name.required(errors, "");
        }
        checks::port_number(&port.field("port"), errors);
        let protocol = port.field("protocol");
        if protocol.is_empty() {
            protocol.required(errors, "");
        } else {
            checks::one_of(&protocol, &["SCTP", "TCP", "UDP"], errors);
        }
        let target = port.field("targetPort");
        match target.opt_str() {
            Some(name) => checks::push_problems(&target, checks::port_name_problems(name), errors),
            None => checks::port_number(&target, errors),
        }
        let application = port.field("appProtocol");
        if application.exists() {
            checks::push_problems(
                &application,
                validation::qualified_name(application.str()),
                errors,
            );
        }
    }
}

fn validate_affinity(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let affinity = spec.field("sessionAffinity");
    let config = spec.field("sessionAffinityConfig");
    match affinity.str() {
        "" => affinity.required(errors, ""),
        "None" => {
            if config.exists() {
                config.forbidden(errors, "must not be set when session affinity is None");
            }
        }
        "ClientIP" => {
            let client = config.field("clientIP");
            let timeout = client.field("timeoutSeconds");
            let absent = [&config, &client, &timeout];
            let absent = absent.iter().find(|field| !field.exists());
            let seconds = timeout.int().unwrap_or_default();
            if let Some(field) = absent {
                field.required(errors, "when session affinity type is ClientIP");
            } else if !(1..=AFFINITY_SECONDS_MAX).contains(&seconds) {
                let detail = format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}");
                timeout.invalid(errors, detail);
            }
        }
        _ => checks::one_of(&affinity, &["ClientIP", "None"], errors),
    }
}

/// Addresses of the old object are exempt from strict format validation.
fn validate_external_ips(
    spec: &FieldView<'_>,
    old: &FieldView<'_>,
    is_strict: bool,
    errors: &mut ErrorList,
) {
    let old = old.field("externalIPs");
    let known = string_items(&old);
    for address in spec.field("externalIPs").items() {
        let before = errors.len();
        if !known.contains(&address.str()) {
            ip_addresses::validate(&address, is_strict, errors);
        }
        if errors.len() == before {
            ip_addresses::validate_endpoint_address(&address, errors);
        }
    }
}

fn validate_port_numbers(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let ports = spec.field("ports");
    let is_internal = spec.field("type").str() == "ClusterIP";
    for port in ports.items() {
        let node_port = port.field("nodePort");
        if is_internal && !node_port.is_empty() {
            node_port.forbidden(errors, "may not be used when `type` is 'ClusterIP'");
        }
    }
    let mut seen = BTreeSet::new();
    for port in ports.items() {
        let node_port = port.field("nodePort");
        let key = (port.field("protocol").str().to_owned(), node_port.int());
        if !node_port.is_empty() && !seen.insert(key) {
            node_port.duplicate(errors);
        }
    }
    let mut seen = BTreeSet::new();
    for port in ports.items() {
        let number = port.field("port").int().unwrap_or_default();
        let protocol = port.field("protocol").str().to_owned();
        // Upstream reports its internal type with only the compared fields set.
        let shown = format!(
            "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}",
            gotext::quote(&protocol)
        );
        if !seen.insert((protocol, number)) {
            errors.push(Error::duplicate(port.path(), BadValue::Rendered(shown)));
        }
    }
}

fn validate_source_ranges(
    object: &FieldView<'_>,
    old: &FieldView<'_>,
    is_strict: bool,
    errors: &mut ErrorList,
) {
    let (spec, old_spec) = (object.field("spec"), old.field("spec"));
    let is_balancer = spec.field("type").str() == "LoadBalancer";
    let ranges = spec.field("loadBalancerSourceRanges");
    if !ranges.is_empty() {
        // With a capital, as upstream names it.
        let at = spec.field("LoadBalancerSourceRanges");
        if !is_balancer {
            at.forbidden(errors, ONLY_LOAD_BALANCER);
        }
        let old_ranges = old_spec.field("loadBalancerSourceRanges");
        let known: Vec<&str> = string_items(&old_ranges)
            .into_iter()
            .map(str::trim)
            .collect();
        for (index, range) in string_items(&ranges).into_iter().enumerate() {
            if !known.contains(&range.trim()) {
                let value = serde_json::Value::from(range.trim());
                let block = FieldView::at(Some(&value), at.path().index(index));
                ip_addresses::validate_cidr(&block, is_strict, errors);
            }
        }
        return;
    }
    let (metadata, old_metadata) = (object.field("metadata"), old.field("metadata"));
    let annotations = metadata.field("annotations");
    let old_annotations = old_metadata.field("annotations");
    let ranges = annotations.key(SOURCE_RANGES);
    if !ranges.exists() {
        return;
    }
    if !is_balancer {
        ranges.forbidden(errors, ONLY_LOAD_BALANCER);
    }
    let text = ranges.str().trim();
    if text.is_empty() || old_annotations.key(SOURCE_RANGES).str() == ranges.str() {
        return;
    }
    for range in text.split(',') {
        let value = serde_json::Value::from(range.trim());
        let block = FieldView::at(Some(&value), *ranges.path());
        ip_addresses::validate_cidr(&block, is_strict, errors);
    }
}

fn validate_load_balancer_fields(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let allocate = spec.field("allocateLoadBalancerNodePorts");
    let is_balancer = spec.field("type").str() == "LoadBalancer";
    if allocate.exists() && !is_balancer {
        allocate.forbidden(errors, ONLY_LOAD_BALANCER);
    }
    if !allocate.exists() && is_balancer {
        // Upstream leaves `spec` out of this path.
        let path = rhumb_meta::field::Path::new("allocateLoadBalancerNodePorts");
        errors.push(Error::required(&path, ""));
    }
}

pub(super) fn validate_load_balancer_class(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let class = spec.field("loadBalancerClass");
    if !class.exists() {
        return;
    }
    if spec.field("type").str() == "LoadBalancer" {
        checks::push_problems(&class, validation::qualified_name(class.str()), errors);
    } else {
        class.forbidden(errors, ONLY_LOAD_BALANCER);
    }
}

fn validate_traffic(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let external = spec.field("externalTrafficPolicy");
    match (is_externally_accessible(spec), external.is_empty()) {
        (true, true) => external.required(errors, ""),
        (true, false) => checks::one_of(&external, &["Cluster", "Local"], errors),
        (false, true) => {}
        (false, false) => {
            let detail = "may only be set for externally-accessible services";
            checks::invalid_text(&external, errors, detail);
        }
    }
    let port = spec.field("healthCheckNodePort");
    match (needs_health_check(spec), port.is_empty()) {
        (true, true) => port.required(errors, ""),
        (true, false) => checks::port_number(&port, errors),
        (false, true) => {}
        (false, false) => {
            let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            port.invalid(errors, detail);
        }
    }
    let internal = spec.field("internalTrafficPolicy");
    let kind = spec.field("type");
    let is_needed = matches!(kind.str(), "NodePort" | "LoadBalancer" | "ClusterIP");
    if internal.exists() {
        checks::one_of(&internal, &["Cluster", "Local"], errors);
    } else if is_needed {
        internal.required(errors, "");
    }
    let distribution = spec.field("trafficDistribution");
    if distribution.exists() {
        let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        checks::one_of_texts(&distribution, &known, errors);
    }
}
