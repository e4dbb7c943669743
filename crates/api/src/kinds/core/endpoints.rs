//! Declares `Endpoints` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/core/validation`.

use rhumb_meta::field::ErrorList;
use rhumb_meta::validation;

use crate::feature_gates::Feature;
use crate::{
    FieldView, Kind, ResourceScope, ResourceStrategy, StrategyContext, checks, ip_addresses,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "",
        "v1",
        "Endpoints",
        "endpoints",
        "io.k8s.api.core.v1.Endpoints",
    )
    .short_names(&["ep"])
    .storage("services/endpoints")
    .creates_on_update()
    .deprecated("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    .strategy(EndpointsStrategy)
}

#[derive(Debug)]
struct EndpointsStrategy;

impl ResourceStrategy for EndpointsStrategy {
    fn validate_create(
        &self,
        object: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate_subsets(&object.field("subsets"), request, errors);
    }

    /// Unchanged subsets are not validated again.
    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let subsets = object.field("subsets");
        if !subsets.same_as(&old.field("subsets")) {
            validate_subsets(&subsets, request, errors);
        }
    }

    fn warnings(
        &self,
        object: &FieldView<'_>,
        _: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
        let metadata = object.field("metadata");
        let labels = metadata.field("labels");
        // The endpoints controller writes only canonical addresses.
        if labels.key("endpoints.kubernetes.io/managed-by").str() == "endpoint-controller" {
            return;
        }
        for subset in object.field("subsets").items() {
            for name in ["addresses", "notReadyAddresses"] {
                for address in subset.field(name).items() {
                    ip_addresses::warn(&address.field("ip"), warnings);
                }
            }
        }
    }
}

fn validate_subsets(
    subsets: &FieldView<'_>,
    request: &StrategyContext<'_>,
    errors: &mut ErrorList,
) {
    for subset in subsets.items() {
        let (ready, not_ready) = (subset.field("addresses"), subset.field("notReadyAddresses"));
        if ready.is_empty() && not_ready.is_empty() {
            subset.required(errors, "must specify `addresses` or `notReadyAddresses`");
        }
        for address in ready.items().chain(not_ready.items()) {
            validate_address(&address, request, errors);
        }
        let ports = subset.field("ports");
        for port in ports.items() {
            validate_port(&port, ports.len() > 1, errors);
        }
    }
}

fn validate_address(
    address: &FieldView<'_>,
    request: &StrategyContext<'_>,
    errors: &mut ErrorList,
) {
    let ip = address.field("ip");
    let is_strict = request.gates.enabled(Feature::StrictIPCIDRValidation);
    ip_addresses::validate(&ip, is_strict, errors);
    let hostname = address.field("hostname");
    if !hostname.is_empty() {
        checks::push_problems(&hostname, validation::dns1123_label(hostname.str()), errors);
    }
    let node = address.field("nodeName");
    if node.exists() {
        checks::push_problems(&node, validation::dns1123_subdomain(node.str()), errors);
    }
    ip_addresses::validate_endpoint_address(&ip, errors);
}

fn validate_port(port: &FieldView<'_>, needs_name: bool, errors: &mut ErrorList) {
    let name = port.field("name");
    if !name.is_empty() {
        checks::push_problems(&name, validation::dns1123_label(name.str()), errors);
    } else if needs_name {
        name.required(errors, "");
    }
    checks::port_number(&port.field("port"), errors);
    let protocol = port.field("protocol");
    if protocol.is_empty() {
        protocol.required(errors, "");
    } else {
        checks::one_of(&protocol, &["SCTP", "TCP", "UDP"], errors);
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::{check_create, check_update, kind, warnings};

    fn subset(ip: &str, ports: Value) -> Value {
        json!({"subsets": [{"addresses": [{"ip": ip}], "ports": ports}]})
    }

    #[test]
    fn addresses_and_ports_are_validated() {
        let endpoints = kind("", "Endpoints");
        let port = json!([{"port": 80, "protocol": "TCP"}]);
        check_create(&endpoints, subset("10.0.0.1", port), &[]);
        check_create(
            &endpoints,
            subset(
                "127.0.0.1",
                json!([{"port": 0, "protocol": "HTTP"}, {"port": 1, "name": "A"}]),
            ),
            &[
                concat!(
                    "subsets[0].addresses[0].ip: Invalid value: \"127.0.0.1\": may not be in the loopback range ",
                    "(127.0.0.0/8, ::1/128)"
                ),
                "subsets[0].ports[0].name: Required value",
                "subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                concat!(
                    "subsets[0].ports[0].protocol: Unsupported value: \"HTTP\": supported values: \"SCTP\", ",
                    "\"TCP\", \"UDP\""
                ),
                concat!(
                    "subsets[0].ports[1].name: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower ",
                    "case alphanumeric characters or '-', and must start and end with an alphanumeric character ",
                    "(e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                ),
                "subsets[0].ports[1].protocol: Required value",
            ],
        );
        let want = "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`";
        check_create(&endpoints, json!({"subsets": [{}]}), &[want]);
    }

    #[test]
    fn unchanged_invalid_addresses_are_accepted() {
        let endpoints = kind("", "Endpoints");
        let old = subset("010.0.0.1", json!([]));
        let labels = json!({"metadata": {"labels": {"a": "b"}}});
        check_update(&endpoints, old.clone(), labels, &[]);
        let want =
            "subsets[0].addresses[0].ip: Invalid value: \"010.0.0.1\": must not have leading 0s";
        check_create(&endpoints, old, &[want]);
    }

    #[test]
    fn non_canonical_addresses_cause_a_warning() {
        let odd = subset("2001:DB8::1", json!([]));
        let want = concat!(
            "subsets[0].addresses[0].ip: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format ",
            "(\"2001:db8::1\")"
        );
        assert_eq!(warnings(&kind("", "Endpoints"), odd), [want]);
    }
}
