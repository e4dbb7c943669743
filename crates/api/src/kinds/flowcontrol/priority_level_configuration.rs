//! Declares `PriorityLevelConfiguration` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/flowcontrol/validation`.

use rhumb_meta::field::{Error, ErrorList};

use super::conditions;
use crate::validation_helpers::checks;
use crate::{FieldView, GenerationPolicy, Kind, ResourceScope, ResourceStrategy, StrategyContext};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Cluster,
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        "io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration",
    )
    .generation(GenerationPolicy::ChangesTo(&["spec"]))
    .status()
    .strategy(PriorityLevelConfigurationStrategy)
}

const QUEUES_MAX: i64 = 10_000_000;
/// Maximum entropy bits of a shuffle-sharding hand.
const HASH_BITS: f64 = 60.0;
/// Annotation that the v1beta3 conversion used; rejected in v1.
const PRESERVE_ZERO_SHARES_ANNOTATION: &str =
    "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

#[derive(Debug)]
struct PriorityLevelConfigurationStrategy;

impl ResourceStrategy for PriorityLevelConfigurationStrategy {
    fn validate_create(
        &self,
        object: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate(object, errors);
    }

    fn validate_update(
        &self,
        object: &FieldView<'_>,
        _: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        validate(object, errors);
    }

    fn validate_status_update(
        &self,
        object: &FieldView<'_>,
        _: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        conditions::validate(&object.field("status"), errors);
    }
}

fn validate(object: &FieldView<'_>, errors: &mut ErrorList) {
    let (metadata, spec) = (object.field("metadata"), object.field("spec"));
    let annotations = metadata.field("annotations");
    if annotations.key(PRESERVE_ZERO_SHARES_ANNOTATION).exists() {
        let detail = format!("annotation '{PRESERVE_ZERO_SHARES_ANNOTATION}' is forbidden");
        annotations.forbidden(errors, detail);
    }
    let kind = spec.field("type");
    let is_exempt = metadata.field("name").str() == "exempt";
    if is_exempt != (kind.str() == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        checks::invalid_text(&kind, errors, detail);
    }
    let (limited, exempt) = (spec.field("limited"), spec.field("exempt"));
    match kind.str() {
        "Exempt" => {
            if limited.exists() {
                limited.forbidden(errors, "must be nil if the type is not Limited");
            }
            validate_shares(&exempt, errors);
        }
        "Limited" => {
            if exempt.exists() {
                exempt.forbidden(errors, "must be nil if the type is Limited");
            }
            if limited.exists() {
                validate_limited(&limited, errors);
            } else {
                limited.required(errors, "must not be empty when type is Limited");
            }
        }
        _ => checks::not_supported_text(&kind, &["Exempt", "Limited"], errors),
    }
    conditions::validate(&object.field("status"), errors);
}

fn validate_shares(level: &FieldView<'_>, errors: &mut ErrorList) {
    let shares = level.field("nominalConcurrencyShares");
    if shares.int().is_some_and(|shares| shares < 0) {
        shares.invalid(errors, "must be a non-negative integer");
    }
    validate_lendable(level, errors);
}

fn validate_lendable(level: &FieldView<'_>, errors: &mut ErrorList) {
    let lendable = level.field("lendablePercent");
    if lendable
        .int()
        .is_some_and(|percent| !(0..=100).contains(&percent))
    {
        lendable.invalid(errors, "must be between 0 and 100, inclusive");
    }
}

fn validate_limited(limited: &FieldView<'_>, errors: &mut ErrorList) {
    let shares = limited.field("nominalConcurrencyShares");
    if shares.int().is_some_and(|shares| shares < 0) {
        shares.invalid(errors, "must be a non-negative integer");
    }
    validate_response(&limited.field("limitResponse"), errors);
    validate_lendable(limited, errors);
    let borrowing = limited.field("borrowingLimitPercent");
    if borrowing.int().is_some_and(|percent| percent < 0) {
        borrowing.invalid(errors, "if specified, must be a non-negative integer");
    }
}

fn validate_response(response: &FieldView<'_>, errors: &mut ErrorList) {
    let (kind, queuing) = (response.field("type"), response.field("queuing"));
    match kind.str() {
        "Reject" if queuing.exists() => queuing.forbidden(
            errors,
            "must be nil if limited.limitResponse.type is not Limited",
        ),
        "Reject" => {}
        "Queue" if queuing.exists() => validate_queuing(&queuing, errors),
        "Queue" => queuing.required(
            errors,
            "must not be empty if limited.limitResponse.type is Limited",
        ),
        _ => checks::not_supported_text(&kind, &["Queue", "Reject"], errors),
    }
}

fn validate_queuing(queuing: &FieldView<'_>, errors: &mut ErrorList) {
    let int = |name: &str| queuing.field(name).int().unwrap_or(0);
    let mut refuse = |name: &str, detail: String| {
        errors.push(Error::invalid(
            queuing.field(name).path(),
            int(name),
            detail,
        ));
    };
    let (queues, hand) = (int("queues"), int("handSize"));
    if int("queueLengthLimit") <= 0 {
        refuse("queueLengthLimit", "must be positive".to_owned());
    }
    if queues <= 0 {
        refuse("queues", "must be positive".to_owned());
    } else if queues > QUEUES_MAX {
        refuse("queues", format!("must not be greater than {QUEUES_MAX}"));
    }
    if hand <= 0 {
        refuse("handSize", "must be positive".to_owned());
    } else if hand > queues {
        refuse(
            "handSize",
            format!("should not be greater than queues ({queues})"),
        );
    } else if ((queues as f64).log2() * hand as f64).ceil() > HASH_BITS {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
        );
        refuse("handSize", detail);
    }
}
