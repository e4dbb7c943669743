//! Node.

use std::collections::HashSet;
use std::net::IpAddr;

use rhumb_meta::field::{BadValue, Error, ErrorList};
use rhumb_meta::{Quantity, gotext};
use serde_json::Value;

use crate::pods::{checks, resources, scheduling};
use crate::{
    Kind, Object, Request, Rules, Scope, Selectable, Selected, SubresourceKind, Verb, View,
};

const TAINTS: &str = "scheduler.alpha.kubernetes.io/taints";
const FEATURE_MAX_BYTES: usize = 253;

const SELECTABLE: &[Selectable] = &[Selectable {
    name: "spec.unschedulable",
    value: Selected::Flag("spec.unschedulable"),
}];

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "",
        "v1",
        "Node",
        "nodes",
        "io.k8s.api.core.v1.Node",
    )
    .short(&["no"])
    .storage("minions")
    .selectable(SELECTABLE)
    .rules(NodeRules)
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
    .speaks("", "v1", "NodeProxyOptions")
    .status()
    .create_with_status()
}

#[derive(Debug)]
struct NodeRules;

impl Rules for NodeRules {
    fn default(&self, node: &mut Object) {
        mirror_pod_cidr(node);
    }

    fn prepare_create(&self, node: &mut Object, _: &Request<'_>) {
        remove(node, "spec", "configSource");
        remove(node, "status", "config");
    }

    fn prepare_update(&self, node: &mut Object, old: &Object, _: &Request<'_>) {
        if !has(old, "spec", "configSource") {
            remove(node, "spec", "configSource");
        }
    }

    fn prepare_status_update(&self, node: &mut Object, old: &Object, _: &Request<'_>) {
        if !has(old, "status", "config") {
            remove(node, "status", "config");
        }
    }

    fn validate_create(&self, node: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        validate(node, errors);
    }

    fn validate_update(
        &self,
        node: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        validate(node, errors);
        validate_change(node, old, errors);
    }

    fn validate_status_update(
        &self,
        node: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        validate_change(node, old, errors);
    }

    fn warnings(&self, node: &View<'_>, _: Option<&View<'_>>, warnings: &mut Vec<String>) {
        let spec = node.field("spec");
        if spec.has("configSource") {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if !spec.text("externalID").is_empty() {
            let warning = "spec.externalID: this field is deprecated, and is unused by Kubernetes";
            warnings.push(warning.to_owned());
        }
        for range in spec.field("podCIDRs").items() {
            canonical_cidr(&range, warnings);
        }
    }
}

fn has(node: &Object, part: &str, field: &str) -> bool {
    node.get(part)
        .and_then(|part| part.get(field))
        .is_some_and(|value| !value.is_null())
}

fn remove(node: &mut Object, part: &str, field: &str) {
    if let Some(Value::Object(part)) = node.get_mut(part) {
        part.remove(field);
    }
}

/// The old field for one range of addresses always says the first of the new field's, and wins if they differ.
fn mirror_pod_cidr(node: &mut Object) {
    let Some(Value::Object(spec)) = node.get_mut("spec") else {
        return;
    };
    let first = spec
        .get("podCIDRs")
        .and_then(|ranges| ranges.get(0)?.as_str())
        .map(str::to_owned);
    let old = spec.get("podCIDR").and_then(Value::as_str);
    let old = old.filter(|range| !range.is_empty()).map(str::to_owned);
    match (first, old) {
        (first, Some(range)) if first.as_ref() != Some(&range) => {
            spec.insert("podCIDRs".to_owned(), serde_json::json!([range]));
        }
        (Some(range), None) => {
            spec.insert("podCIDR".to_owned(), range.into());
        }
        _ => {}
    }
}

fn validate(node: &View<'_>, errors: &mut ErrorList) {
    let (metadata, spec, status) = (
        node.field("metadata"),
        node.field("spec"),
        node.field("status"),
    );
    validate_annotations(&metadata.field("annotations"), errors);
    validate_taints(&metadata, &spec, errors);
    validate_resources(&status, errors);
    let info = status.field("nodeInfo");
    let swap = info.field("swap");
    if swap.has("capacity") {
        let path = metadata.path().child("nodeSwapStatus");
        let capacity = View::at(swap.get("capacity"), path.child("capacity"));
        checks::positive(&capacity, errors);
    }
    validate_features(&status.field("declaredFeatures"), errors);
    validate_pod_cidrs(&spec.field("podCIDRs"), errors);
}

fn validate_annotations(annotations: &View<'_>, errors: &mut ErrorList) {
    let text = annotations.text(TAINTS);
    if text.is_empty() {
        return;
    }
    match serde_json::from_str::<Value>(text) {
        Ok(taints) => {
            let taints = View::at(Some(&taints), annotations.path().child(TAINTS));
            scheduling::validate_taints(&taints, errors);
        }
        Err(error) => errors.push(Error::invalid(
            annotations.path(),
            TAINTS,
            error.to_string(),
        )),
    }
}

/// Errors are in the metadata, where upstream puts them.
fn validate_taints(metadata: &View<'_>, spec: &View<'_>, errors: &mut ErrorList) {
    let taints = View::at(spec.get("taints"), metadata.path().child("taints"));
    scheduling::validate_taints(&taints, errors);
}

fn validate_resources(status: &View<'_>, errors: &mut ErrorList) {
    for list in ["capacity", "allocatable"] {
        let amounts = status.field(list);
        for (name, amount) in amounts.object().into_iter().flatten() {
            if let Ok(quantity) = Quantity::from_json(amount) {
                let path = amounts.path().child(name);
                resources::validate_value(name, &quantity, &path, errors);
            }
        }
    }
}

fn validate_features(features: &View<'_>, errors: &mut ErrorList) {
    let mut before: Option<&str> = None;
    for feature in features.items() {
        let name = feature.str();
        match before {
            Some(before) if before == name => {
                errors.push(Error::duplicate(feature.path(), name));
            }
            Some(before) if before > name => {
                checks::bad_text(&feature, errors, "list must be sorted alphabetically");
            }
            _ => {}
        }
        let quoted = gotext::quote(name);
        if name.len() > FEATURE_MAX_BYTES {
            let detail =
                format!("invalid feature name {quoted}: must be no more than 253 characters");
            checks::bad_text(&feature, errors, detail);
        } else if !is_feature(name) {
            let detail = format!(
                "invalid feature name {quoted}: must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
            );
            checks::bad_text(&feature, errors, detail);
        }
        before = Some(name);
    }
}

fn is_feature(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.split('/').all(|segment| {
            segment.starts_with(|c: char| c.is_ascii_alphabetic())
                && segment.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
}

fn validate_pod_cidrs(ranges: &View<'_>, errors: &mut ErrorList) {
    for range in ranges.items() {
        validate_cidr(&range, errors);
    }
    if ranges.len() < 2 {
        return;
    }
    let addresses = ranges.items().map(|range| match parse_cidr(range.str()) {
        Some(_) => range.str().split('/').next().unwrap_or_default(),
        None => "",
    });
    let dual_stack = checks::is_dual_stack(addresses);
    if let Err(index) = dual_stack {
        let range = ranges.items().nth(index);
        let range = range.map_or("", |range| range.str());
        let detail = format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{index}]: <nil> (invalid CIDR address: {range})"
        );
        errors.push(Error::internal(ranges.path(), detail));
    }
    if dual_stack != Ok(true) || ranges.len() > 2 {
        let detail = "may specify no more than one CIDR for each IP family";
        ranges.invalid(errors, detail);
    }
}

fn validate_cidr(view: &View<'_>, errors: &mut ErrorList) {
    let refused = match parse_cidr(view.str()) {
        None => "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        Some(range) if range.has_leading_zeros => "must not have leading 0s in IP or prefix length",
        Some(range) if range.is_mapped() => "must not have an IPv4-mapped IPv6 address",
        Some(range) if range.has_host_bits() => "must not have bits set beyond the prefix length",
        Some(_) => return,
    };
    checks::bad_text(view, errors, refused);
}

fn canonical_cidr(view: &View<'_>, warnings: &mut Vec<String>) {
    let Some(range) = parse_cidr(view.str()) else {
        return;
    };
    let canonical = format!("{}/{}", range.address, range.prefix);
    if range.address.is_ipv6() && canonical != view.str() {
        warnings.push(format!(
            "{}: IPv6 CIDR value {} should be in RFC 5952 canonical format ({})",
            view.path(),
            gotext::quote(view.str()),
            gotext::quote(&canonical)
        ));
    }
}

struct Cidr {
    address: IpAddr,
    prefix: u32,
    has_leading_zeros: bool,
}

fn parse_cidr(text: &str) -> Option<Cidr> {
    let (address_text, prefix_text) = text.split_once('/')?;
    let address = checks::sloppy_ip(address_text)?;
    let is_number = !prefix_text.is_empty() && prefix_text.bytes().all(|b| b.is_ascii_digit());
    let prefix: u32 = prefix_text.parse().ok().filter(|_| is_number)?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let has_leading_zeros = address_text.parse::<IpAddr>().is_err()
        || (prefix_text.len() > 1 && prefix_text.starts_with('0'));
    (prefix <= bits).then_some(Cidr {
        address,
        prefix,
        has_leading_zeros,
    })
}

impl Cidr {
    fn is_mapped(&self) -> bool {
        matches!(self.address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
    }

    fn has_host_bits(&self) -> bool {
        match self.address {
            IpAddr::V4(address) => address.to_bits().checked_shl(self.prefix).unwrap_or(0) != 0,
            IpAddr::V6(address) => address.to_bits().checked_shl(self.prefix).unwrap_or(0) != 0,
        }
    }
}

fn validate_change(node: &View<'_>, old: &View<'_>, errors: &mut ErrorList) {
    let (metadata, spec, status) = (
        node.field("metadata"),
        node.field("spec"),
        node.field("status"),
    );
    validate_annotations(&metadata.field("annotations"), errors);
    validate_resources(&status, errors);
    validate_features(&status.field("declaredFeatures"), errors);
    validate_addresses(&status.field("addresses"), errors);
    let old_spec = old.field("spec");
    let (ranges, old_ranges) = (spec.field("podCIDRs"), old_spec.field("podCIDRs"));
    if !old_ranges.is_empty() && !ranges.same_as(&old_ranges) {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        ranges.forbidden(errors, detail);
    }
    let old_provider = old_spec.text("providerID");
    if !old_provider.is_empty() && old_provider != spec.text("providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        spec.field("providerID").forbidden(errors, detail);
    }
    if spec.has("configSource") {
        config_source(&spec.field("configSource"), ConfigPlace::Spec, errors);
    }
    let config = status.field("config");
    for source in ["assigned", "active", "lastKnownGood"] {
        if config.has(source) {
            config_source(&config.field(source), ConfigPlace::Status, errors);
        }
    }
    validate_taints(&metadata, &spec, errors);
    if spec.text("externalID") != old_spec.text("externalID") {
        spec.field("externalID")
            .forbidden(errors, "may not be updated");
    }
}

fn validate_addresses(addresses: &View<'_>, errors: &mut ErrorList) {
    let mut known = HashSet::new();
    for address in addresses.items() {
        if !known.insert((address.text("type"), address.text("address"))) {
            let shown = checks::go_struct(
                &address,
                &[("Type", "type", "\"\""), ("Address", "address", "\"\"")],
            );
            errors.push(Error::duplicate(address.path(), BadValue::Rendered(shown)));
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ConfigPlace {
    Spec,
    Status,
}

/// A source of configuration, which nothing reads any more.
fn config_source(source: &View<'_>, place: ConfigPlace, errors: &mut ErrorList) {
    let map = source.field("configMap");
    if !map.exists() {
        let shown = BadValue::Rendered("{\"ConfigMap\":null}".to_owned());
        let detail = "exactly one reference subfield must be non-nil";
        errors.push(Error::invalid(source.path(), shown, detail));
        return;
    }
    for field in ["uid", "resourceVersion"] {
        let value = map.field(field);
        match (place, value.is_empty()) {
            (ConfigPlace::Spec, false) => {
                value.forbidden(errors, format!("{field} must not be set in spec"));
            }
            (ConfigPlace::Status, true) => value.required(errors, ""),
            _ => {}
        }
    }
    checks::required_dns_label(&map.field("namespace"), errors);
    checks::required_dns_subdomain(&map.field("name"), errors);
    let key = map.field("kubeletConfigKey");
    if key.is_empty() {
        key.required(errors, "");
    } else {
        checks::config_key(&key, errors);
    }
}
