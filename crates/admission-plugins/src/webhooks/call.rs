//! Calls one webhook and interprets the result.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rhumb_admission::review::{AdmissionRequest, AdmissionResponse, parse_response};
use rhumb_admission::{FailurePolicy, ResourceAndKind, SideEffects, WebhookType};
use rhumb_api::JsonObject;
use rhumb_meta::{Status, StatusReason};

use super::WebhookPlugin;
use super::webhook_set::PreparedWebhook;
use crate::cel_inputs::user_info;
use crate::metrics::WebhookRejectionType;
use rhumb_registry::admission::AdmissionAttributes;

/// Why a webhook call did not admit the request.
#[derive(Debug)]
pub(super) enum WebhookRejection {
    /// The call failed, or the response is invalid. The failure policy decides.
    Failed { reason: String, code: u16 },
    /// The webhook denied the request.
    Denied(Status),
    /// The request is rejected regardless of the failure policy.
    Internal(Status),
}

impl WebhookRejection {
    fn failed(reason: impl Into<String>, code: u16) -> WebhookRejection {
        WebhookRejection::Failed {
            reason: reason.into(),
            code,
        }
    }
}

/// The objects of a review, in the version that the webhook matched.
#[derive(Debug)]
pub(super) struct ReviewObjects<'o> {
    pub(super) object: Option<Cow<'o, JsonObject>>,
    old_object: Option<Cow<'o, JsonObject>>,
    options: Option<JsonObject>,
}

impl<'o> ReviewObjects<'o> {
    pub(super) fn new(
        attributes: &AdmissionAttributes<'o>,
        names: &ResourceAndKind,
        object: Option<&'o JsonObject>,
    ) -> Result<ReviewObjects<'o>, Status> {
        let convert = |object: &'o JsonObject| attributes.converted(names, object);
        Ok(ReviewObjects {
            object: object.map(convert).transpose()?,
            old_object: attributes.old_object.map(convert).transpose()?,
            options: attributes.options(),
        })
    }
}

impl WebhookPlugin {
    /// Calls the webhook. Its audit annotations and warnings are published whatever its verdict is.
    pub(super) async fn call(
        &self,
        attributes: &AdmissionAttributes<'_>,
        webhook: &PreparedWebhook,
        names: &ResourceAndKind,
        review_objects: &ReviewObjects<'_>,
        name: &str,
    ) -> Result<AdmissionResponse, WebhookRejection> {
        let spec = &webhook.spec;
        if attributes.dry_run {
            check_dry_run(&spec.name, spec.side_effects)?;
        }
        let Some(version) = spec.review_version else {
            let reason = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            return Err(WebhookRejection::failed(reason, 400));
        };
        let uid = uuid::Uuid::new_v4().to_string();
        let review = admission_request(attributes, names, review_objects, name, &uid)
            .and_then(|request| request.to_json(version).map_err(Status::internal_error))
            .map_err(WebhookRejection::Internal)?;
        let target = webhook.target.as_ref().map_err(|error| {
            WebhookRejection::failed(format!("could not get REST client: {error}"), 500)
        })?;
        let Ok(_permit) = webhook.waiting_permits.try_acquire() else {
            return Err(WebhookRejection::failed(
                "too many requests are already waiting for this webhook",
                503,
            ));
        };
        let response = self
            .dependencies
            .client
            .post(target, Bytes::from(review), spec.timeout)
            .await
            .map_err(|error| {
                WebhookRejection::failed(
                    format!("failed to call webhook: {error}"),
                    error.metrics_code(),
                )
            })?;
        let mutating = self.webhook_type == WebhookType::Mutating;
        let response = parse_response(&response, &uid, version, mutating)
            .map_err(|error| WebhookRejection::failed(error.to_string(), 503))?;
        self.publish_annotations_and_warnings(attributes, webhook, &response);
        if response.allowed {
            return Ok(response);
        }
        Err(WebhookRejection::Denied(denial_status(
            &spec.name,
            response.status,
        )))
    }

    fn publish_annotations_and_warnings(
        &self,
        attributes: &AdmissionAttributes<'_>,
        webhook: &PreparedWebhook,
        response: &AdmissionResponse,
    ) {
        let name = &webhook.spec.name;
        for (key, value) in &response.annotations {
            attributes.context.annotate(format!("{name}/{key}"), value);
        }
        // Warnings that do not fit into a header are dropped, as upstream does.
        let fits_header =
            |warning: &&String| !warning.is_empty() && !warning.contains(['\n', '\r']);
        for warning in response.warnings.iter().filter(fits_header) {
            attributes.context.warn(warning);
        }
    }

    /// Records metrics of a call and applies the failure policy.
    pub(super) fn record_outcome(
        &self,
        attributes: &AdmissionAttributes<'_>,
        webhook: &PreparedWebhook,
        started: Instant,
        rejection: Option<WebhookRejection>,
    ) -> WebhookCallOutcome {
        let (metrics, subject) = (
            &self.dependencies.metrics,
            self.metric_subject(attributes, webhook),
        );
        let elapsed: Duration = started.elapsed();
        let Some(rejection) = rejection else {
            metrics.record_webhook_call(subject, elapsed, false, 200);
            return WebhookCallOutcome::Allowed;
        };
        let ignored = webhook.spec.failure_policy == FailurePolicy::Ignore;
        let (rejection_type, code) = match &rejection {
            WebhookRejection::Failed { reason, code } if ignored => {
                webhook.warn_failing(reason, true);
                metrics.record_webhook_call(subject, elapsed, false, *code);
                metrics.record_webhook_fail_open(subject);
                return WebhookCallOutcome::FailedOpen;
            }
            WebhookRejection::Failed { reason, code } => {
                webhook.warn_failing(reason, false);
                (WebhookRejectionType::CallFailed, *code)
            }
            WebhookRejection::Denied(status) => (WebhookRejectionType::Denied, code_of(status)),
            WebhookRejection::Internal(_) => (WebhookRejectionType::Internal, 0),
        };
        metrics.record_webhook_rejection(subject, rejection_type, code);
        metrics.record_webhook_call(subject, elapsed, true, code);
        WebhookCallOutcome::Rejected(match rejection {
            WebhookRejection::Failed { reason, .. } => Status::internal_error(format_args!(
                "failed calling webhook {:?}: {reason}",
                webhook.spec.name
            )),
            WebhookRejection::Denied(status) | WebhookRejection::Internal(status) => status,
        })
    }
}

/// The outcome of a webhook call after the failure policy.
#[derive(Debug)]
pub(super) enum WebhookCallOutcome {
    Allowed,
    /// The call failed and the failure policy is `Ignore`.
    FailedOpen,
    Rejected(Status),
}

fn code_of(status: &Status) -> u16 {
    status.code.try_into().unwrap_or(u16::MAX)
}

/// Webhooks with side effects must not be called for a dry run.
fn check_dry_run(name: &str, side_effects: SideEffects) -> Result<(), WebhookRejection> {
    match side_effects {
        SideEffects::None => Ok(()),
        SideEffects::Unspecified => {
            Err(WebhookRejection::failed("Webhook SideEffects is nil", 400))
        }
        SideEffects::Some => Err(WebhookRejection::Internal(Status::bad_request(format!(
            "admission webhook {name:?} does not support dry run"
        )))),
    }
}

fn admission_request<'a>(
    attributes: &'a AdmissionAttributes<'_>,
    names: &'a ResourceAndKind,
    review_objects: &'a ReviewObjects<'_>,
    name: &'a str,
    uid: &'a str,
) -> Result<AdmissionRequest<'a>, Status> {
    Ok(AdmissionRequest {
        uid,
        matched: names,
        requested: &attributes.equivalent_resources()?.names,
        subresource: attributes.subresource(),
        name,
        namespace: attributes.request_namespace(review_objects.object.as_deref()),
        operation: attributes.operation,
        user: user_info(attributes.context.user),
        object: review_objects.object.as_deref(),
        old_object: review_objects.old_object.as_deref(),
        dry_run: attributes.dry_run,
        options: review_objects.options.as_ref(),
    })
}

/// The error for a denied request: the webhook's own status, prefixed with its name.
fn denial_status(name: &str, status: Option<Status>) -> Status {
    let denied = format!("admission webhook {name:?} denied the request");
    // Without a status from the webhook the reason stays empty, as upstream.
    let mut status = status.unwrap_or_else(|| Status {
        reason: StatusReason::default(),
        ..Status::bad_request("")
    });
    status.code = status.code.max(400);
    if matches!(&*status.status, "" | "Success") {
        status.status = "Failure".into();
    }
    status.message = match (&*status.message, status.reason.as_str()) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    status
}
