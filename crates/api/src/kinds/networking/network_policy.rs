//! Declares `NetworkPolicy` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/networking/validation`.

mod min_version;

use rhumb_meta::field::{Error, ErrorList};

use crate::feature_gates::Feature;
use crate::ip_addresses::{self, CidrBlock};
use crate::network_policy_versions::FeatureCatalog;
use crate::{
    DroppedField, FeatureGates, FieldView, GenerationPolicy, JsonObject, Kind, ResourceScope,
    ResourceStrategy, StrategyContext, UnknownFieldRejection, checks, conditions, selectors,
};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "networking.k8s.io",
        "v1",
        "NetworkPolicy",
        "networkpolicies",
        "io.k8s.api.networking.v1.NetworkPolicy",
    )
    .short_names(&["netpol"])
    .generation(GenerationPolicy::ChangesTo(&["spec"]))
    .reject_unknown_fields(UnknownFieldRejection {
        gate: Feature::NetworkPolicyVersioning,
        reason: "network policies are always read strictly: without some of its fields, one would mean something else",
        server_set_spec_fields: &["minVersion"],
    })
    .read_fixup(min_version::fill_missing_min_version)
    .status()
    .strategy(NetworkPolicyStrategy {
        catalog: FeatureCatalog::builtin(),
    })
}

#[derive(Debug)]
struct NetworkPolicyStrategy {
    catalog: FeatureCatalog,
}

fn versioning_enabled(request: &StrategyContext<'_>) -> bool {
    request.gates.enabled(Feature::NetworkPolicyVersioning)
}

/// Ratcheting: invalid values that an update may keep because the old policy has them.
struct NetworkPolicyValidationOptions {
    accepted_blocks: Vec<String>,
    selectors: selectors::Options,
    /// Whether CIDRs must be canonical.
    is_strict: bool,
    /// Whether a CIDR may have host bits set: with versioning, the policy agent reports how it reads them.
    allow_host_bits: bool,
}

impl NetworkPolicyValidationOptions {
    fn new(
        accepted_blocks: Vec<String>,
        selectors: selectors::Options,
        request: &StrategyContext<'_>,
    ) -> NetworkPolicyValidationOptions {
        NetworkPolicyValidationOptions {
            accepted_blocks,
            selectors,
            is_strict: request.gates.enabled(Feature::StrictIPCIDRValidation),
            allow_host_bits: versioning_enabled(request),
        }
    }
}

impl ResourceStrategy for NetworkPolicyStrategy {
    fn disabled_fields(
        &self,
        object: &JsonObject,
        old: Option<&JsonObject>,
        gates: &FeatureGates,
    ) -> Vec<DroppedField> {
        min_version::disabled_field(object, old, gates)
            .into_iter()
            .collect()
    }

    fn prepare_create(&self, object: &mut JsonObject, request: &StrategyContext<'_>) {
        min_version::prepare(object, None, &self.catalog, request);
    }

    fn prepare_update(
        &self,
        object: &mut JsonObject,
        old: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        min_version::prepare(object, Some(old), &self.catalog, request);
    }

    fn validate_create(
        &self,
        object: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let options =
            NetworkPolicyValidationOptions::new(Vec::new(), selectors::Options::default(), request);
        validate_spec(&object.field("spec"), &options, errors);
        min_version::validate(object, None, &self.catalog, request, errors);
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        request: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let old_spec = old.field("spec");
        let selector = old_spec.field("podSelector");
        let mut blocks = Vec::new();
        for_each_block(&old_spec, |block| blocks.push(block.str().to_owned()));
        let options = NetworkPolicyValidationOptions::new(
            blocks,
            checks::selector_validation_options([&selector]),
            request,
        );
        validate_spec(&object.field("spec"), &options, errors);
        min_version::validate(object, Some(old), &self.catalog, request, errors);
    }

    /// Drops the status while the gate is disabled, unless the old object has one.
    fn prepare_status_update(
        &self,
        object: &mut JsonObject,
        old: &JsonObject,
        request: &StrategyContext<'_>,
    ) {
        if !versioning_enabled(request) && !old.contains_key("status") {
            object.remove("status");
        }
    }

    fn validate_status_update(
        &self,
        object: &FieldView<'_>,
        _: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let status = object.field("status");
        conditions::validate_type_and_status(&status.field("conditions"), errors);
    }

    fn warnings(
        &self,
        object: &FieldView<'_>,
        _: Option<&FieldView<'_>>,
        warnings: &mut Vec<String>,
    ) {
        for_each_block(&object.field("spec"), |block| {
            ip_addresses::warn_cidr(block, warnings);
        });
    }
}

/// The two lists of rules, and the field with their peers.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

fn for_each_block(spec: &FieldView<'_>, mut see: impl FnMut(&FieldView<'_>)) {
    for (direction, peers) in DIRECTIONS {
        for rule in spec.field(direction).items() {
            for peer in rule.field(peers).items() {
                let block = peer.field("ipBlock");
                if block.exists() {
                    see(&block.field("cidr"));
                    block
                        .field("except")
                        .items()
                        .for_each(|except| see(&except));
                }
            }
        }
    }
}

fn validate_spec(
    spec: &FieldView<'_>,
    options: &NetworkPolicyValidationOptions,
    errors: &mut ErrorList,
) {
    let selector = spec.field("podSelector");
    selectors::validate_label_selector(&selector, options.selectors, errors);
    for (direction, peers) in DIRECTIONS {
        for rule in spec.field(direction).items() {
            for port in rule.field("ports").items() {
                validate_port(&port, errors);
            }
            for peer in rule.field(peers).items() {
                validate_peer(&peer, options, errors);
            }
        }
    }
    let types = spec.field("policyTypes");
    if types.len() > 2 {
        return types.invalid(errors, "may not specify more than two policyTypes");
    }
    for kind in types.items() {
        checks::one_of(&kind, &["Ingress", "Egress"], errors);
    }
}

fn validate_port(port: &FieldView<'_>, errors: &mut ErrorList) {
    let protocol = port.field("protocol");
    if protocol.exists() {
        checks::one_of(&protocol, &["TCP", "UDP", "SCTP"], errors);
    }
    let (first, last) = (port.field("port"), port.field("endPort"));
    if let Some(name) = first.opt_str() {
        if last.exists() {
            last.invalid(errors, "may not be specified when `port` is non-numeric");
        }
        checks::push_problems(&first, checks::port_name_problems(name), errors);
    } else if let Some(number) = first.int() {
        checks::port_number(&first, errors);
        if last.int().is_some_and(|last| last < number) {
            // As upstream, the reported value is the first port.
            let detail = "must be greater than or equal to `port`";
            errors.push(Error::invalid(last.path(), number, detail));
        }
        if last.exists() {
            checks::port_number(&last, errors);
        }
    } else if last.exists() {
        last.invalid(errors, "may not be specified when `port` is not specified");
    }
}

fn validate_peer(
    peer: &FieldView<'_>,
    options: &NetworkPolicyValidationOptions,
    errors: &mut ErrorList,
) {
    let mut selectors_set = 0;
    for name in ["podSelector", "namespaceSelector"] {
        let selector = peer.field(name);
        if selector.exists() {
            selectors_set += 1;
            selectors::validate_label_selector(&selector, options.selectors, errors);
        }
    }
    let block = peer.field("ipBlock");
    if block.exists() {
        validate_block(&block, options, errors);
    }
    match (selectors_set, block.exists()) {
        (0, false) => peer.required(errors, "must specify a peer"),
        (1.., true) => peer.forbidden(errors, "may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn validate_block(
    block: &FieldView<'_>,
    options: &NetworkPolicyValidationOptions,
    errors: &mut ErrorList,
) {
    let cidr = block.field("cidr");
    if cidr.is_empty() {
        return cidr.required(errors, "");
    }
    validate_cidr(&cidr, options, errors);
    let Some(outer) = CidrBlock::parse_lax(cidr.str()) else {
        return;
    };
    for except in block.field("except").items() {
        validate_cidr(&except, options, errors);
        if let Some(inner) = CidrBlock::parse_lax(except.str())
            && (!outer.contains(inner) || outer.masked().prefix >= inner.masked().prefix)
        {
            checks::invalid_text(&except, errors, "must be a strict subset of `cidr`");
        }
    }
}

fn validate_cidr(
    cidr: &FieldView<'_>,
    options: &NetworkPolicyValidationOptions,
    errors: &mut ErrorList,
) {
    if options
        .accepted_blocks
        .iter()
        .any(|known| known == cidr.str())
    {
        return;
    }
    if options.allow_host_bits {
        ip_addresses::validate_cidr_with_host_bits(cidr, options.is_strict, errors);
    } else {
        ip_addresses::validate_cidr(cidr, options.is_strict, errors);
    }
}

#[cfg(test)]
mod tests;
