//! Declares `EndpointSlice` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/discovery/validation`.

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;

use crate::feature_gates::Feature;
use crate::{
    FieldView, GenerationPolicy, JsonObject, Kind, ResourceScope, ResourceStrategy,
    StrategyContext, checks, fields, ip_addresses, selectors,
};

const ENDPOINTS_MAX: usize = 1000;
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20000;
const TOPOLOGY_MAX: usize = 16;
const HINTS_MAX: usize = 8;

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "discovery.k8s.io",
        "v1",
        "EndpointSlice",
        "endpointslices",
        "io.k8s.api.discovery.v1.EndpointSlice",
    )
    .generation(GenerationPolicy::ChangesTo(&[
        "addressType",
        "endpoints",
        "ports",
        "metadata.labels",
    ]))
    .strategy(EndpointSliceStrategy)
}

#[derive(Debug)]
struct EndpointSliceStrategy;

impl ResourceStrategy for EndpointSliceStrategy {
    fn prepare_create(&self, object: &mut JsonObject, _: &StrategyContext<'_>) {
        drop_deprecated_topology(object, &[]);
    }

    fn prepare_update(&self, object: &mut JsonObject, old: &JsonObject, _: &StrategyContext<'_>) {
        if fields::get(object, "endpoints") != fields::get(old, "endpoints") {
            drop_deprecated_topology(object, fields::items(old, "endpoints"));
        }
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_type_and_ports(object, errors);
        validate_endpoints(object, request, errors);
    }

    /// Unchanged endpoints are not validated again.
    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_type_and_ports(object, errors);
        if !object.field("endpoints").same_as(&old.field("endpoints")) {
            validate_endpoints(object, request, errors);
        }
        checks::immutable_text(
            &object.field("addressType"),
            &old.field("addressType"),
            errors,
        );
    }

    fn warnings(
        &self,
        object: &FieldView<'_>,
        old: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
        if old.is_none() && object.field("addressType").str() == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        let metadata = object.field("metadata");
        let labels = metadata.field("labels");
        let manager = labels.key("endpointslice.kubernetes.io/managed-by");
        let is_ours = matches!(
            manager.str(),
            "endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io"
        );
        if is_ours {
            return;
        }
        for endpoint in object.field("endpoints").items() {
            for address in endpoint.field("addresses").items() {
                ip_addresses::warn(&address, warnings);
            }
        }
    }
}

const HOSTNAME: &str = "kubernetes.io/hostname";

/// Drops `deprecatedTopology`. A host name in it that the old slice also had is moved to `nodeName`.
fn drop_deprecated_topology(slice: &mut JsonObject, old: &[serde_json::Value]) {
    let node = |endpoint: &JsonObject| {
        let topology = endpoint.get("deprecatedTopology")?.as_object()?;
        Some(topology.get(HOSTNAME)?.as_str()?.to_owned())
    };
    let known: Vec<String> = old
        .iter()
        .filter_map(|endpoint| node(endpoint.as_object()?))
        .collect();
    for endpoint in fields::objects_mut(slice, "endpoints") {
        if let Some(name) = node(endpoint)
            && fields::get(endpoint, "nodeName").is_none()
            && known.contains(&name)
            && validation::dns1123_subdomain(&name).is_empty()
        {
            fields::set(endpoint, "nodeName", name);
        }
        endpoint.remove("deprecatedTopology");
    }
}

fn validate_type_and_ports(object: &FieldView<'_>, errors: &mut ErrorList) {
    let kind = object.field("addressType");
    if kind.is_empty() {
        kind.required(errors, "");
    } else {
        checks::one_of(&kind, &["FQDN", "IPv4", "IPv6"], errors);
    }
    let ports = object.field("ports");
    if ports.len() > PORTS_MAX {
        errors.push(Error::too_many(ports.path(), Some(ports.len()), PORTS_MAX));
        return;
    }
    let mut names = std::collections::HashSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.is_empty() {
            checks::push_problems(&name, validation::dns1123_label(name.str()), errors);
        }
        if !names.insert(name.str().to_owned()) {
            errors.push(Error::duplicate(name.path(), name.str()));
        }
        let protocol = port.field("protocol");
        if protocol.exists() {
            checks::one_of(&protocol, &["SCTP", "TCP", "UDP"], errors);
        } else {
            protocol.required(errors, "");
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

fn validate_endpoints(
    object: &FieldView<'_>,
    request: &StrategyContext<'_>,
    errors: &mut ErrorList,
) {
    let kind = object.field("addressType");
    let endpoints = object.field("endpoints");
    if endpoints.len() > ENDPOINTS_MAX {
        errors.push(Error::too_many(
            endpoints.path(),
            Some(endpoints.len()),
            ENDPOINTS_MAX,
        ));
        return;
    }
    let is_strict = request.gates.enabled(Feature::StrictIPCIDRValidation);
    for endpoint in endpoints.items() {
        let list = endpoint.field("addresses");
        if list.is_empty() {
            list.required(errors, "must contain at least 1 address");
        } else if list.len() > ADDRESSES_MAX {
            errors.push(Error::too_many(
                list.path(),
                Some(list.len()),
                ADDRESSES_MAX,
            ));
        }
        for address in list.items() {
            match kind.str() {
                "IPv4" => validate_v4(&list, &address, is_strict, errors),
                "IPv6" => validate_v6(&list, &address, errors),
                "FQDN" => validate_domain(&address, errors),
                _ => {}
            }
        }
        let node = endpoint.field("nodeName");
        if node.exists() {
            checks::push_problems(&node, validation::dns1123_subdomain(node.str()), errors);
        }
        let topology = endpoint.field("deprecatedTopology");
        if topology.len() > TOPOLOGY_MAX {
            errors.push(Error::too_many(
                topology.path(),
                Some(topology.len()),
                TOPOLOGY_MAX,
            ));
        }
        selectors::validate_labels(&topology, errors);
        let hostname = endpoint.field("hostname");
        if hostname.exists() {
            checks::push_problems(&hostname, validation::dns1123_label(hostname.str()), errors);
        }
        validate_hints(&endpoint.field("hints"), errors);
    }
}

fn validate_v4(
    list: &FieldView<'_>,
    address: &FieldView<'_>,
    is_strict: bool,
    errors: &mut ErrorList,
) {
    let before = errors.len();
    ip_addresses::validate(address, is_strict, errors);
    if errors.len() > before {
        return;
    }
    if ip_addresses::parse_lax(address.str()).is_some_and(|parsed| parsed.is_ipv6()) {
        errors.push(Error::invalid(
            list.path(),
            address.str(),
            "must be an IPv4 address",
        ));
    }
    ip_addresses::validate_endpoint_address(address, errors);
}

fn validate_v6(list: &FieldView<'_>, address: &FieldView<'_>, errors: &mut ErrorList) {
    let before = errors.len();
    ip_addresses::validate_canonical(address, errors);
    if errors.len() > before {
        return;
    }
    if ip_addresses::parse_lax(address.str()).is_some_and(|parsed| parsed.is_ipv4()) {
        errors.push(Error::invalid(
            list.path(),
            address.str(),
            "must be an IPv6 address",
        ));
    }
    ip_addresses::validate_endpoint_address(address, errors);
}

/// Requires a domain name with at least two labels; it may end with a dot.
fn validate_domain(address: &FieldView<'_>, errors: &mut ErrorList) {
    if address.is_empty() {
        return address.required(errors, "");
    }
    let name = address.str().strip_suffix('.').unwrap_or(address.str());
    let mut refuse = |value: &str, detail: String| {
        errors.push(Error::invalid(address.path(), value, detail));
    };
    let found = validation::dns1123_subdomain(name);
    if !found.is_empty() {
        return refuse(name, found.join(","));
    }
    if !name.contains('.') {
        let detail = "should be a domain with at least two segments separated by dots";
        return refuse(name, detail.to_owned());
    }
    for label in name.split('.') {
        let found = validation::dns1123_label(label);
        if !found.is_empty() {
            return refuse(label, found.join(","));
        }
    }
}

type HintNameValidator = fn(&str) -> validation::ValidationProblems;

fn validate_hints(hints: &FieldView<'_>, errors: &mut ErrorList) {
    let rules: [(&str, HintNameValidator); 2] = [
        ("forZones", validation::label_value),
        ("forNodes", validation::dns1123_subdomain),
    ];
    for (name, problems) in rules {
        let list = hints.field(name);
        if list.len() > HINTS_MAX {
            errors.push(Error::too_many(list.path(), Some(list.len()), HINTS_MAX));
            return;
        }
        let mut names: Vec<String> = Vec::new();
        for hint in list.items() {
            let name = hint.field("name");
            if names.iter().any(|known| known == name.str()) {
                errors.push(Error::duplicate(name.path(), name.str()));
            } else {
                names.push(name.str().to_owned());
            }
            checks::push_problems(&name, problems(name.str()), errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::{check_create, check_update, kind, update, warnings};

    fn slice(kind: &str, addresses: Value) -> Value {
        json!({"addressType": kind, "endpoints": [{"addresses": addresses}],
            "ports": [{"name": "", "protocol": "TCP", "port": 80}]})
    }

    fn check(kind_of_address: &str, addresses: Value, want: &[&str]) {
        let object = slice(kind_of_address, addresses);
        check_create(&kind("discovery.k8s.io", "EndpointSlice"), object, want);
    }

    #[test]
    fn addresses_match_the_address_type() {
        check("IPv4", json!(["10.0.0.1"]), &[]);
        check("IPv6", json!(["2001:db8::1"]), &[]);
        check("FQDN", json!(["example.com."]), &[]);
        check(
            "IPv4",
            json!(["2001:db8::1"]),
            &["endpoints[0].addresses: Invalid value: \"2001:db8::1\": must be an IPv4 address"],
        );
        check(
            "IPv6",
            json!(["2001:DB8::1"]),
            &[
                "endpoints[0].addresses[0]: Invalid value: \"2001:DB8::1\": must be in canonical form (\"2001:db8::1\")",
            ],
        );
        check(
            "FQDN",
            json!(["local"]),
            &[concat!(
                "endpoints[0].addresses[0]: Invalid value: \"local\": should be a domain with at least two segments ",
                "separated by dots"
            )],
        );
        check(
            "Odd",
            json!([]),
            &[
                "addressType: Unsupported value: \"Odd\": supported values: \"FQDN\", \"IPv4\", \"IPv6\"",
                "endpoints[0].addresses: Required value: must contain at least 1 address",
            ],
        );
    }

    #[test]
    fn list_lengths_are_limited() {
        let addresses: Vec<String> = (0..101).map(|n| format!("10.0.0.{n}")).collect();
        let want = "endpoints[0].addresses: Too many: 101: must have at most 100 items";
        check("IPv4", json!(addresses), &[want]);
        let endpoints: Vec<Value> = (0..1001).map(|_| json!({})).collect();
        let mut many = slice("IPv4", json!([]));
        many["endpoints"] = json!(endpoints);
        let want = "endpoints: Too many: 1001: must have at most 1000 items";
        check_create(&kind("discovery.k8s.io", "EndpointSlice"), many, &[want]);
    }

    #[test]
    fn duplicate_hints_and_ports_are_rejected() {
        let mut object = slice("IPv4", json!(["10.0.0.1"]));
        object["ports"] = json!([{"name": "a", "protocol": "TCP"}, {"name": "a", "protocol": "X"}]);
        object["endpoints"][0]["hints"] = json!({"forZones": [{"name": "z"}, {"name": "z"}]});
        check_create(
            &kind("discovery.k8s.io", "EndpointSlice"),
            object,
            &[
                "ports[1].name: Duplicate value: \"a\"",
                "ports[1].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
                "endpoints[0].hints.forZones[1].name: Duplicate value: \"z\"",
            ],
        );
    }

    #[test]
    fn address_type_is_immutable() {
        check_update(
            &kind("discovery.k8s.io", "EndpointSlice"),
            slice("IPv4", json!(["10.0.0.1"])),
            json!({"addressType": "FQDN"}),
            &["addressType: Invalid value: \"FQDN\": field is immutable"],
        );
    }

    #[test]
    fn deprecated_topology_is_dropped_and_its_node_name_kept() {
        let topology = json!({"kubernetes.io/hostname": "node"});
        let mut old = slice("IPv4", json!(["10.0.0.1"]));
        old["endpoints"][0]["deprecatedTopology"] = topology.clone();
        let endpoints = json!([{"addresses": ["10.0.0.2"], "deprecatedTopology": topology}]);
        let patch = json!({"endpoints": endpoints});
        let (made, errors) = update(&kind("discovery.k8s.io", "EndpointSlice"), old, patch);
        assert!(errors.is_empty(), "{errors}");
        let want = json!([{"addresses": ["10.0.0.2"], "nodeName": "node"}]);
        assert_eq!(made["endpoints"], want);
    }

    #[test]
    fn fqdn_address_type_causes_a_warning() {
        let got = warnings(
            &kind("discovery.k8s.io", "EndpointSlice"),
            slice("FQDN", json!(["a.b"])),
        );
        assert_eq!(got, ["spec.addressType: FQDN endpoints are deprecated"]);
    }
}
