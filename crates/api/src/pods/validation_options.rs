//! Options of pod validation, derived from the old pod on update (ratcheting): invalid values that the old pod has
//! may be kept. Upstream: `PodValidationOptions` and `GetValidationOptionsFromPodSpecAndMeta`.

use rhumb_meta::field::ErrorList;
use serde_json::Value;

use super::{affinity, annotations, checks, for_each_container, resources, security};
use crate::FieldView;
use crate::selectors::{self, has_invalid_label_value, validate_label_selector};

/// Options of pod validation. The default is for a new template.
#[derive(Debug, Clone, Default)]
pub(crate) struct PodValidationOptions {
    /// Whether this is a pod; some fields may be omitted in a template.
    pub(super) is_pod: bool,
    pub(super) allow_invalid_deletion_cost: bool,
    pub(super) allow_invalid_labels_in_selectors: bool,
    pub(super) allow_invalid_labels_in_required_node_affinity: bool,
    pub(super) allow_invalid_spread_selectors: bool,
    pub(super) allow_indivisible_huge_pages: bool,
    pub(super) allow_nonlocal_token_path: bool,
    pub(super) allow_host_sysctls: bool,
    pub(super) allow_comparing_tolerations: bool,
    pub(super) allow_any_selinux_change_policy: bool,
    pub(super) allow_restart_of_init_containers: bool,
    pub(super) allow_user_namespace_in_host_network: bool,
    pub(super) allow_user_namespace_with_devices: bool,
    pub(super) old_violates_label_keys: bool,
}

impl PodValidationOptions {
    /// Options for an update; `spec` and `notes` are the spec and the annotations of the old pod or template.
    pub(super) fn for_update_of(spec: &FieldView<'_>, notes: &FieldView<'_>) -> Self {
        let own_users = spec.field("hostUsers").opt_bool() == Some(false);
        PodValidationOptions {
            is_pod: false,
            allow_invalid_deletion_cost: !annotations::has_valid_deletion_cost(notes),
            allow_invalid_labels_in_selectors: has_invalid_affinity_labels(spec),
            allow_invalid_labels_in_required_node_affinity: has_invalid_node_labels(spec),
            allow_invalid_spread_selectors: has_invalid_spread(spec, |constraint, errors| {
                let selector = constraint.field("labelSelector");
                validate_label_selector(&selector, selectors::Options::default(), errors);
            }),
            allow_indivisible_huge_pages: has_indivisible_huge_pages(spec),
            allow_nonlocal_token_path: has_nonlocal_token_path(spec),
            allow_host_sysctls: has_host_sysctls(spec),
            allow_comparing_tolerations: spec
                .field("tolerations")
                .items()
                .any(|toleration| matches!(toleration.text("operator"), "Lt" | "Gt")),
            allow_any_selinux_change_policy: spec
                .field("securityContext")
                .has("seLinuxChangePolicy"),
            allow_restart_of_init_containers: restarts_init_containers(spec),
            allow_user_namespace_in_host_network: own_users && spec.field("hostNetwork").is_true(),
            allow_user_namespace_with_devices: own_users && has_devices(spec),
            old_violates_label_keys: has_invalid_spread(spec, affinity::validate_label_keys),
        }
    }

    pub(super) fn for_pod(self) -> Self {
        PodValidationOptions {
            is_pod: true,
            ..self
        }
    }
}

fn has_invalid_affinity_labels(spec: &FieldView<'_>) -> bool {
    let affinity = spec.field("affinity");
    ["podAffinity", "podAntiAffinity"].into_iter().any(|kind| {
        let pods = affinity.field(kind);
        let required = pods.field("requiredDuringSchedulingIgnoredDuringExecution");
        let preferred = pods.field("preferredDuringSchedulingIgnoredDuringExecution");
        required.items().any(|term| has_invalid_term_labels(&term))
            || preferred
                .items()
                .any(|weighted| has_invalid_term_labels(&weighted.field("podAffinityTerm")))
    })
}

/// Returns whether the selectors of a term are invalid.
fn has_invalid_term_labels(term: &FieldView<'_>) -> bool {
    let mut errors = ErrorList::new();
    affinity::validate_term_selectors(term, selectors::Options::default(), &mut errors);
    !errors.is_empty()
}

fn has_invalid_node_labels(spec: &FieldView<'_>) -> bool {
    let affinity = spec.field("affinity");
    let nodes = affinity.field("nodeAffinity");
    let required = nodes.field("requiredDuringSchedulingIgnoredDuringExecution");
    let terms = required.field("nodeSelectorTerms");
    terms.items().any(|term| has_invalid_label_value(&term))
}

/// Returns whether `check` rejects any of the spread constraints.
fn has_invalid_spread(spec: &FieldView<'_>, check: fn(&FieldView<'_>, &mut ErrorList)) -> bool {
    let constraints = spec.field("topologySpreadConstraints");
    constraints.items().any(|constraint| {
        let mut errors = ErrorList::new();
        check(&constraint, &mut errors);
        !errors.is_empty()
    })
}

fn has_indivisible_huge_pages(spec: &FieldView<'_>) -> bool {
    let mut found = false;
    for_each_container(spec, |container| {
        let own = container.field("resources");
        for list in ["limits", "requests"] {
            let amounts = own.field(list);
            found |= amounts.entries().any(|(name, amount)| {
                let amount = checks::quantity(&amount, &mut ErrorList::new());
                resources::is_huge_page(name)
                    && amount.is_some_and(|amount| !resources::is_divisible(name, &amount))
            });
        }
    });
    found
}

fn has_nonlocal_token_path(spec: &FieldView<'_>) -> bool {
    spec.field("volumes").items().any(|volume| {
        let projected = volume.field("projected");
        projected.field("sources").items().any(|source| {
            source
                .get("serviceAccountToken")
                .and_then(|token| token.get("path"))
                .and_then(Value::as_str)
                .is_some_and(|path| !checks::is_local_non_reserved_path(path))
        })
    })
}

fn has_host_sysctls(spec: &FieldView<'_>) -> bool {
    let context = spec.field("securityContext");
    context
        .field("sysctls")
        .items()
        .any(|sysctl| security::shared_host_namespace(spec, sysctl.text("name")).is_some())
}

fn restarts_init_containers(spec: &FieldView<'_>) -> bool {
    spec.field("initContainers").items().any(|container| {
        let policies = container.field("resizePolicy");
        container.text("restartPolicy") != "Always"
            && policies
                .items()
                .any(|policy| policy.text("restartPolicy") == "RestartContainer")
    })
}

fn has_devices(spec: &FieldView<'_>) -> bool {
    let mut found = false;
    for_each_container(spec, |container| found |= container.has("volumeDevices"));
    found
}
