//! Declares `ResourceClaim` and its strategy: preparation, validation and warnings, as in
//! upstream's `pkg/apis/resource/validation`.

use std::collections::HashSet;

use rhumb_meta::field::{Error, ErrorList};

use crate::validation_helpers::checks;
use crate::{FieldView, Kind, ResourceScope, ResourceStrategy, StrategyContext};

pub(super) fn kind() -> Kind {
    Kind::new(
        ResourceScope::Namespaced,
        "resource.k8s.io",
        "v1",
        "ResourceClaim",
        "resourceclaims",
        "io.k8s.api.resource.v1.ResourceClaim",
    )
    .returns_deleted()
    .status()
    .status_update_preserves(crate::kind::USER_METADATA_FIELDS)
    .strategy(ResourceClaimStrategy)
}

const CONSUMERS_MAX: usize = 256;

#[derive(Debug)]
struct ResourceClaimStrategy;

impl ResourceStrategy for ResourceClaimStrategy {
    fn validate_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        checks::immutable(&object.field("spec"), &old.field("spec"), errors);
    }

    fn validate_status_update(
        &self,
        object: &FieldView<'_>,
        old: &FieldView<'_>,
        _: &StrategyContext<'_>,
        errors: &mut ErrorList,
    ) {
        let (status, before) = (object.field("status"), old.field("status"));
        let reserved = status.field("reservedFor");
        validate_consumers(&reserved, errors);
        let (allocation, allocated) = (status.field("allocation"), before.field("allocation"));
        let metadata = object.field("metadata");
        if !reserved.is_empty() && !allocation.exists() {
            reserved.forbidden(errors, "may not be specified when `allocated` is not set");
        } else if metadata.field("deletionTimestamp").exists() {
            validate_no_new_consumers(&reserved, &before.field("reservedFor"), errors);
        }
        if allocation.exists() && allocated.exists() {
            checks::immutable(&allocation, &allocated, errors);
        }
    }
}

fn validate_consumers(reserved: &FieldView<'_>, errors: &mut ErrorList) {
    if reserved.len() > CONSUMERS_MAX {
        let count = Some(reserved.len());
        errors.push(Error::too_many(reserved.path(), count, CONSUMERS_MAX));
    }
    let mut seen = HashSet::new();
    for consumer in reserved.items() {
        for name in ["resource", "name", "uid"] {
            let field = consumer.field(name);
            if field.is_empty() {
                field.required(errors, "");
            }
        }
        let uid = consumer.field("uid");
        if !seen.insert(uid.str().to_owned()) {
            errors.push(Error::duplicate(consumer.path(), uid.str()));
        }
    }
}

/// Rejects new consumers of a claim that is being deleted.
fn validate_no_new_consumers(
    reserved: &FieldView<'_>,
    before: &FieldView<'_>,
    errors: &mut ErrorList,
) {
    let is_known = |consumer: &FieldView<'_>| {
        before
            .items()
            .any(|old| checks::semantically_equal(&old, consumer))
    };
    if !reserved.items().all(|consumer| is_known(&consumer)) {
        reserved.forbidden(
            errors,
            "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
        );
    }
}
