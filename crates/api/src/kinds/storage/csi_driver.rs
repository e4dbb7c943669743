//! CSIDriver.

use std::collections::HashSet;

use rhumb_meta::field::{BadValue, Error, ErrorList, Path};

use crate::gates::Feature;
use crate::workloads::checks;
use crate::{Kind, Object, Request, Rules, Scope, View, edit};

pub(super) fn kind() -> Kind {
    Kind::new(
        Scope::Cluster,
        "storage.k8s.io",
        "v1",
        "CSIDriver",
        "csidrivers",
        "io.k8s.api.storage.v1.CSIDriver",
    )
    .returns_deleted()
    .updates_need_version()
    .rules(CsiDriver)
}

const EXPIRATION_SECONDS_MIN: i64 = 600;
const EXPIRATION_SECONDS_MAX: i64 = 1 << 32;
const UPDATE_PERIOD_SECONDS_MIN: i64 = 10;

#[derive(Debug)]
struct CsiDriver;

impl Rules for CsiDriver {
    fn prepare_create(&self, object: &mut Object, request: &Request<'_>) {
        drop_disabled(object, None, request);
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, request: &Request<'_>) {
        drop_disabled(object, Some(old), request);
        // Only changes count here: a new driver has no generation.
        if !checks::same_values(object.get("spec"), old.get("spec")) {
            let generation = edit::get(old, &["metadata", "generation"]);
            let generation = generation.and_then(serde_json::Value::as_i64).unwrap_or(0);
            edit::within(object, &["metadata"], |metadata| {
                metadata.insert("generation".to_owned(), (generation + 1).into());
            });
        }
    }

    fn validate_create(&self, object: &View<'_>, _: &Request<'_>, errors: &mut ErrorList) {
        validate_spec(&object.field("spec"), errors);
    }

    fn validate_update(
        &self,
        object: &View<'_>,
        old: &View<'_>,
        _: &Request<'_>,
        errors: &mut ErrorList,
    ) {
        let (spec, old) = (object.field("spec"), old.field("spec"));
        validate_spec(&spec, errors);
        let attach = spec.field("attachRequired");
        if !checks::same(&attach, &old.field("attachRequired")) {
            let place = spec.path().child(ATTACH_REQUIRED);
            let error = Error::invalid(&place, attach.bad_value(), "field is immutable");
            errors.push(error);
        }
        let name = "volumeLifecycleModes";
        checks::immutable(&spec.field(name), &old.field(name), errors);
    }

    fn warnings(&self, object: &View<'_>, old: Option<&View<'_>>, warnings: &mut Vec<String>) {
        let spec = object.field("spec");
        let tokens = spec.field("tokenRequests");
        let is_new = old.is_none_or(|old| {
            let old = old.field("spec");
            !checks::same(&tokens, &old.field("tokenRequests"))
        });
        if is_new && !tokens.is_empty() && !spec.field("serviceAccountTokenInSecrets").exists() {
            warnings.push(
                "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to \
                 prevent possible logging of tokens in volume attributes"
                    .to_owned(),
            );
        }
    }
}

/// How upstream's errors call `attachRequired`.
const ATTACH_REQUIRED: &str = "attachedRequired";

fn drop_disabled(object: &mut Object, old: Option<&Object>, request: &Request<'_>) {
    let name = "preventPodSchedulingIfMissing";
    let is_in_use = old.is_some_and(|old| edit::get(old, &["spec", name]).is_some());
    if !is_in_use
        && !request.gates.enabled(Feature::VolumeLimitScaling)
        && let Some(spec) = edit::find(object, &["spec"])
    {
        spec.remove(name);
    }
}

fn validate_spec(spec: &View<'_>, errors: &mut ErrorList) {
    let required = |name: &str, path: &Path<'_>, errors: &mut ErrorList| {
        if !spec.field(name).exists() {
            errors.push(Error::required(path, ""));
        }
    };
    required(
        "attachRequired",
        &spec.path().child(ATTACH_REQUIRED),
        errors,
    );
    for name in ["podInfoOnMount", "storageCapacity"] {
        required(name, &spec.path().child(name), errors);
    }
    let policies = ["File", "None", "ReadWriteOnceWithFSType"];
    checks::one_of(&spec.field("fsGroupPolicy"), &policies, errors);
    let tokens = spec.field("tokenRequests");
    validate_tokens(&tokens, errors);
    let modes = spec.field("volumeLifecycleModes");
    for mode in modes.items() {
        let supported = ["Persistent", "Ephemeral"];
        if !supported.contains(&mode.str()) {
            let value: BadValue = mode.bad_value();
            errors.push(Error::not_supported(modes.path(), value, &supported));
        }
    }
    required("seLinuxMount", &spec.path().child("seLinuxMount"), errors);
    let period = spec.field("nodeAllocatableUpdatePeriodSeconds");
    if period
        .int()
        .is_some_and(|seconds| seconds < UPDATE_PERIOD_SECONDS_MIN)
    {
        period.invalid(errors, "must be greater than or equal to 10 seconds");
    }
    let in_secrets = spec.field("serviceAccountTokenInSecrets");
    if in_secrets.exists() && tokens.is_empty() {
        in_secrets.invalid(
            errors,
            "serviceAccountTokenInSecrets is set but no tokenRequests are specified",
        );
    }
}

fn validate_tokens(tokens: &View<'_>, errors: &mut ErrorList) {
    let mut audiences = HashSet::new();
    for token in tokens.items() {
        let audience = token.field("audience");
        if !audiences.insert(audience.str().to_owned()) {
            errors.push(Error::duplicate(audience.path(), audience.str()));
            continue;
        }
        let expiration = token.field("expirationSeconds");
        let seconds = expiration.int().unwrap_or(EXPIRATION_SECONDS_MIN);
        if seconds < EXPIRATION_SECONDS_MIN {
            expiration.invalid(errors, "may not specify a duration less than 10 minutes");
        }
        if seconds > EXPIRATION_SECONDS_MAX {
            expiration.invalid(
                errors,
                "may not specify a duration larger than 2^32 seconds",
            );
        }
    }
}
