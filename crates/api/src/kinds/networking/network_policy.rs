//! NetworkPolicy.

mod versions;

use rhumb_meta::field::{Error, ErrorList};

use crate::addresses::{self, Block};
use crate::gates::Feature;
use crate::network_policies::Catalog;
use crate::{Generation, Kind, Object, Request, Rules, Scope, View, checks, conditions, selectors};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Namespaced,
        "networking.k8s.io",
        "v1",
        "NetworkPolicy",
        "networkpolicies",
        "io.k8s.api.networking.v1.NetworkPolicy",
    )
    .short(&["netpol"])
    .generation(Generation::Of(&["spec"]))
    .known_fields_only(
        Feature::NetworkPolicyVersioning,
        "network policies are always read strictly: without some of its fields, one would mean something else",
    )
    .mend(versions::mend)
    .status()
    .rules(NetworkPolicyRules {
        catalog: Catalog::builtin(),
    })
}

#[derive(Debug)]
struct NetworkPolicyRules {
    catalog: Catalog,
}

fn has_versions(request: &Request<'_>) -> bool {
    request.gates.enabled(Feature::NetworkPolicyVersioning)
}

/// What of an old policy need not be judged again.
struct Accepted {
    blocks: Vec<String>,
    selectors: selectors::Options,
    /// Whether blocks must be written as they should be.
    is_strict: bool,
    /// Whether a block may have bits beyond its prefix: whoever enforces the policy tells how it is read.
    may_be_ambiguous: bool,
}

impl Accepted {
    fn new(blocks: Vec<String>, selectors: selectors::Options, request: &Request<'_>) -> Accepted {
        Accepted {
            blocks,
            selectors,
            is_strict: request.gates.enabled(Feature::StrictIPCIDRValidation),
            may_be_ambiguous: has_versions(request),
        }
    }
}

impl Rules for NetworkPolicyRules {
    fn prepare_create(&self, object: &mut Object, request: &Request<'_>) {
        versions::prepare(object, None, &self.catalog, request);
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, request: &Request<'_>) {
        versions::prepare(object, Some(old), &self.catalog, request);
    }

    fn validate_create(&self, object: &View<'_>, request: &Request<'_>, errors: &mut ErrorList) {
        let accepted = Accepted::new(Vec::new(), selectors::Options::default(), request);
        validate_spec(&object.field("spec"), &accepted, errors);
        versions::validate(object, None, &self.catalog, request, errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        request: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        let old_spec = old.field("spec");
        let selector = old_spec.field("podSelector");
        let mut blocks = Vec::new();
        for_each_block(&old_spec, |block| blocks.push(block.str().to_owned()));
        let accepted = Accepted::new(blocks, checks::selector_options([&selector]), request);
        validate_spec(&object.field("spec"), &accepted, errors);
        versions::validate(object, Some(old), &self.catalog, request, errors);
    }

    /// Without the gate nobody gets a status who has none.
    fn prepare_status_update(&self, object: &mut Object, old: &Object, request: &Request<'_>) {
        if !has_versions(request) && !old.contains_key("status") {
            object.remove("status");
        }
    }

    fn validate_status_update(
        &self,
        object: &View<'_>,
        _: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        let status = object.field("status");
        conditions::validate_brief(&status.field("conditions"), errors);
    }

    fn warnings(&self, object: &View<'_>, _: Option<&View<'_>>, warnings: &mut Vec<String>) {
        for_each_block(&object.field("spec"), |block| {
            addresses::warn_block(block, warnings);
        });
    }
}

/// The two lists of rules, and where their peers are.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

fn for_each_block(spec: &View<'_>, mut see: impl FnMut(&View<'_>)) {
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

fn validate_spec(spec: &View<'_>, accepted: &Accepted, errors: &mut ErrorList) {
    let selector = spec.field("podSelector");
    selectors::validate_label_selector(&selector, accepted.selectors, errors);
    for (direction, peers) in DIRECTIONS {
        for rule in spec.field(direction).items() {
            for port in rule.field("ports").items() {
                validate_port(&port, errors);
            }
            for peer in rule.field(peers).items() {
                validate_peer(&peer, accepted, errors);
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

fn validate_port(port: &View<'_>, errors: &mut ErrorList) {
    let protocol = port.field("protocol");
    if protocol.exists() {
        checks::one_of(&protocol, &["TCP", "UDP", "SCTP"], errors);
    }
    let (first, last) = (port.field("port"), port.field("endPort"));
    if let Some(name) = first.opt_str() {
        if last.exists() {
            last.invalid(errors, "may not be specified when `port` is non-numeric");
        }
        checks::problems(&first, checks::port_name_problems(name), errors);
    } else if let Some(number) = first.int() {
        checks::port_number(&first, errors);
        if last.int().is_some_and(|last| last < number) {
            // As upstream, the first port is shown.
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

fn validate_peer(peer: &View<'_>, accepted: &Accepted, errors: &mut ErrorList) {
    let mut selectors_set = 0;
    for name in ["podSelector", "namespaceSelector"] {
        let selector = peer.field(name);
        if selector.exists() {
            selectors_set += 1;
            selectors::validate_label_selector(&selector, accepted.selectors, errors);
        }
    }
    let block = peer.field("ipBlock");
    if block.exists() {
        validate_block(&block, accepted, errors);
    }
    match (selectors_set, block.exists()) {
        (0, false) => peer.required(errors, "must specify a peer"),
        (1.., true) => peer.forbidden(errors, "may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn validate_block(block: &View<'_>, accepted: &Accepted, errors: &mut ErrorList) {
    let cidr = block.field("cidr");
    if cidr.is_empty() {
        return cidr.required(errors, "");
    }
    validate_cidr(&cidr, accepted, errors);
    let Some(outer) = Block::parse_lax(cidr.str()) else {
        return;
    };
    for except in block.field("except").items() {
        validate_cidr(&except, accepted, errors);
        if let Some(inner) = Block::parse_lax(except.str())
            && (!outer.contains(inner) || outer.masked().prefix >= inner.masked().prefix)
        {
            checks::invalid_text(&except, errors, "must be a strict subset of `cidr`");
        }
    }
}

fn validate_cidr(cidr: &View<'_>, accepted: &Accepted, errors: &mut ErrorList) {
    if accepted.blocks.iter().any(|known| known == cidr.str()) {
        return;
    }
    if accepted.may_be_ambiguous {
        addresses::validate_written_block(cidr, accepted.is_strict, errors);
    } else {
        addresses::validate_block(cidr, accepted.is_strict, errors);
    }
}

#[cfg(test)]
mod tests;
