//! Declares `Node` and its strategy: preparation, validation and warnings, as in upstream's `pkg/apis/core/validation`.

use std::collections::HashSet;
use std::net::IpAddr;

use rhumb_meta::field::{BadValue, Error, ErrorList};
use rhumb_meta::{Quantity, gotext};
use serde_json::Value;

use crate::pods::{checks, resources, scheduling};
use crate::{
    FieldView, JsonObject, Kind, ResourceScope, ResourceStrategy, SelectableField, StrategyContext,
    SubresourceKind, Verb,
};

const TAINTS_ANNOTATION: &str = "scheduler.alpha.kubernetes.io/taints";
const FEATURE_MAX_BYTES: usize = 253;

const SELECTABLE: &[SelectableField] = &[SelectableField::boolean(
    "spec.unschedulable",
    "spec.unschedulable",
)];

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "",
        "v1",
        "Node",
        "nodes",
        "io.k8s.api.core.v1.Node",
    )
    .short_names(&["no"])
    .storage("minions")
    .selectable(SELECTABLE)
    .strategy(NodeStrategy)
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
    .with_subresource_object("", "v1", "NodeProxyOptions")
    .status()
    .create_with_status()
}

#[derive(Debug)]
struct NodeStrategy;

impl ResourceStrategy for NodeStrategy {
    fn apply_defaults(&self, node: &mut JsonObject) {
        mirror_pod_cidr(node);
    }

    fn prepare_create(&self, node: &mut JsonObject, _: &StrategyContext<'_>) {
        remove_field(node, "spec", "configSource");
        remove_field(node, "status", "config");
    }

    fn prepare_update(&self, node: &mut JsonObject, old: &JsonObject, _: &StrategyContext<'_>) {
        if !has_field(old, "spec", "configSource") {
            remove_field(node, "spec", "configSource");
        }
    }

    fn prepare_status_update(
        &self,
        node: &mut JsonObject,
        old: &JsonObject,
        _: &StrategyContext<'_>,
    ) {
        if !has_field(old, "status", "config") {
            remove_field(node, "status", "config");
        }
    }

    fn validate_create(
        &self,
        node: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate(node, errors);
    }

    fn validate_update(
        &self,
        node: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate(node, errors);
        validate_change(node, old, errors);
    }

    fn validate_status_update(
        &self,
        node: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_change(node, old, errors);
    }

    fn warnings(
        &self,
        node: &FieldView<'_>,
        _: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
        let spec = node.field("spec");
        if spec.has("configSource") {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if !spec.text("externalID").is_empty() {
            let warning = "spec.externalID: this field is deprecated, and is unused by Kubernetes";
            warnings.push(warning.to_owned());
        }
        for range in spec.field("podCIDRs").items() {
            warn_of_non_canonical_cidr(&range, warnings);
        }
    }
}

fn has_field(node: &JsonObject, part: &str, field: &str) -> bool {
    node.get(part)
        .and_then(|part| part.get(field))
        .is_some_and(|value| !value.is_null())
}

fn remove_field(node: &mut JsonObject, part: &str, field: &str) {
    if let Some(Value::Object(part)) = node.get_mut(part) {
        part.remove(field);
    }
}

/// Keeps `podCIDR` equal to the first item of `podCIDRs`; `podCIDR` wins if they differ.
fn mirror_pod_cidr(node: &mut JsonObject) {
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

fn validate(node: &FieldView<'_>, errors: &mut ErrorList) {
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
        let capacity = FieldView::at(swap.get("capacity"), path.child("capacity"));
        checks::positive(&capacity, errors);
    }
    validate_features(&status.field("declaredFeatures"), errors);
    validate_pod_cidrs(&spec.field("podCIDRs"), errors);
}

fn validate_annotations(annotations: &FieldView<'_>, errors: &mut ErrorList) {
    let text = annotations.text(TAINTS_ANNOTATION);
    if text.is_empty() {
        return;
    }
    match serde_json::from_str::<Value>(text) {
        Ok(taints) => {
            let taints = FieldView::at(Some(&taints), annotations.path().child(TAINTS_ANNOTATION));
            scheduling::validate_taints(&taints, errors);
        }
        Err(error) => errors.push(Error::invalid(
            annotations.path(),
            TAINTS_ANNOTATION,
            error.to_string(),
        )),
    }
}

/// As upstream, error paths are below the metadata.
fn validate_taints(metadata: &FieldView<'_>, spec: &FieldView<'_>, errors: &mut ErrorList) {
    let taints = FieldView::at(spec.get("taints"), metadata.path().child("taints"));
    scheduling::validate_taints(&taints, errors);
}

fn validate_resources(status: &FieldView<'_>, errors: &mut ErrorList) {
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

fn validate_features(features: &FieldView<'_>, errors: &mut ErrorList) {
    let mut before: Option<&str> = None;
    for feature in features.items() {
        let name = feature.str();
        match before {
            Some(before) if before == name => {
                errors.push(Error::duplicate(feature.path(), name));
            }
            Some(before) if before > name => {
                checks::invalid_text(&feature, errors, "list must be sorted alphabetically");
            }
            _ => {}
        }
        let quoted = gotext::quote(name);
        if name.len() > FEATURE_MAX_BYTES {
            let detail =
                format!("invalid feature name {quoted}: must be no more than 253 characters");
            checks::invalid_text(&feature, errors, detail);
        } else if !is_feature(name) {
            let detail = format!(
                "invalid feature name {quoted}: must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
            );
            checks::invalid_text(&feature, errors, detail);
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

fn validate_pod_cidrs(ranges: &FieldView<'_>, errors: &mut ErrorList) {
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

fn validate_cidr(view: &FieldView<'_>, errors: &mut ErrorList) {
    let refused = match parse_cidr(view.str()) {
        None => "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        Some(range) if range.has_leading_zeros => "must not have leading 0s in IP or prefix length",
        Some(range) if range.is_ipv4_mapped() => "must not have an IPv4-mapped IPv6 address",
        Some(range) if range.has_host_bits() => "must not have bits set beyond the prefix length",
        Some(_) => return,
    };
    checks::invalid_text(view, errors, refused);
}

fn warn_of_non_canonical_cidr(view: &FieldView<'_>, warnings: &mut Vec<String>) {
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

struct ParsedCidr {
    address: IpAddr,
    prefix: u32,
    has_leading_zeros: bool,
}

fn parse_cidr(text: &str) -> Option<ParsedCidr> {
    let (address_text, prefix_text) = text.split_once('/')?;
    let address = checks::sloppy_ip(address_text)?;
    let is_number = !prefix_text.is_empty() && prefix_text.bytes().all(|b| b.is_ascii_digit());
    let prefix: u32 = prefix_text.parse().ok().filter(|_| is_number)?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let has_leading_zeros = address_text.parse::<IpAddr>().is_err()
        || (prefix_text.len() > 1 && prefix_text.starts_with('0'));
    (prefix <= bits).then_some(ParsedCidr {
        address,
        prefix,
        has_leading_zeros,
    })
}

impl ParsedCidr {
    fn is_ipv4_mapped(&self) -> bool {
        matches!(self.address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
    }

    fn has_host_bits(&self) -> bool {
        match self.address {
            IpAddr::V4(address) => address.to_bits().checked_shl(self.prefix).unwrap_or(0) != 0,
            IpAddr::V6(address) => address.to_bits().checked_shl(self.prefix).unwrap_or(0) != 0,
        }
    }
}

fn validate_change(node: &FieldView<'_>, old: &FieldView<'_>, errors: &mut ErrorList) {
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
        validate_config_source(
            &spec.field("configSource"),
            ConfigSourceLocation::Spec,
            errors,
        );
    }
    let config = status.field("config");
    for source in ["assigned", "active", "lastKnownGood"] {
        if config.has(source) {
            validate_config_source(&config.field(source), ConfigSourceLocation::Status, errors);
        }
    }
    validate_taints(&metadata, &spec, errors);
    if spec.text("externalID") != old_spec.text("externalID") {
        spec.field("externalID")
            .forbidden(errors, "may not be updated");
    }
}

fn validate_addresses(addresses: &FieldView<'_>, errors: &mut ErrorList) {
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
enum ConfigSourceLocation {
    Spec,
    Status,
}

/// Validates a `configSource`, which is deprecated and unused.
fn validate_config_source(
    source: &FieldView<'_>,
    place: ConfigSourceLocation,
    errors: &mut ErrorList,
) {
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
            (ConfigSourceLocation::Spec, false) => {
                value.forbidden(errors, format!("{field} must not be set in spec"));
            }
            (ConfigSourceLocation::Status, true) => value.required(errors, ""),
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
