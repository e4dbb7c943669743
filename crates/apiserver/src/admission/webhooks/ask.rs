//! One question to one webhook.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rhumb_admission::review::{Answer, Request, read_answer};
use rhumb_admission::{FailurePolicy, Flavor, Names, SideEffects};
use rhumb_api::Object;
use rhumb_meta::{Status, StatusReason};

use super::Webhooks;
use super::hooks::Hook;
use crate::admission::Attributes;
use crate::admission::counts::Rejection;
use crate::admission::seen::user_info;

/// Why a webhook gave no leave.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It could not be asked, or its answer makes no sense. The failure policy says what follows.
    Failed { reason: String, code: u16 },
    /// It said no.
    Denied(Status),
    /// Whatever the failure policy says, the write cannot go on.
    Internal(Status),
}

impl Refusal {
    fn failed(reason: impl Into<String>, code: u16) -> Refusal {
        Refusal::Failed {
            reason: reason.into(),
            code,
        }
    }
}

/// What a webhook is shown: objects in the version that it reads.
#[derive(Debug)]
pub(super) struct Seen<'o> {
    pub(super) object: Option<Cow<'o, Object>>,
    old: Option<Cow<'o, Object>>,
    options: Option<Object>,
}

impl<'o> Seen<'o> {
    pub(super) fn new(
        attributes: &Attributes<'o>,
        names: &Names,
        object: Option<&'o Object>,
    ) -> Result<Seen<'o>, Status> {
        let version = |object: &'o Object| attributes.shown(names, object);
        Ok(Seen {
            object: object.map(version).transpose()?,
            old: attributes.old.map(version).transpose()?,
            options: attributes.options(),
        })
    }
}

impl Webhooks {
    /// Asks. What the webhook wants to be known is told, whatever its answer is.
    pub(super) async fn ask(
        &self,
        attributes: &Attributes<'_>,
        hook: &Hook,
        names: &Names,
        seen: &Seen<'_>,
        name: &str,
    ) -> Result<Answer, Refusal> {
        let webhook = &hook.webhook;
        if attributes.dry_run {
            check_dry_run(&webhook.name, webhook.side_effects)?;
        }
        let Some(version) = webhook.reviews else {
            let reason = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            return Err(Refusal::failed(reason, 400));
        };
        let uid = uuid::Uuid::new_v4().to_string();
        let review = request(attributes, names, seen, name, &uid)
            .and_then(|request| request.to_json(version).map_err(Status::internal_error))
            .map_err(Refusal::Internal)?;
        let target = hook
            .target
            .as_ref()
            .map_err(|error| Refusal::failed(format!("could not get REST client: {error}"), 500))?;
        let Ok(_room) = hook.room.try_acquire() else {
            return Err(Refusal::failed(
                "too many requests wait for it already",
                503,
            ));
        };
        let answer = self
            .outside
            .client
            .post(target, Bytes::from(review), webhook.timeout)
            .await
            .map_err(|error| {
                Refusal::failed(format!("failed to call webhook: {error}"), error.code())
            })?;
        let mutating = self.flavor == Flavor::Mutating;
        let answer = read_answer(&answer, &uid, version, mutating)
            .map_err(|error| Refusal::failed(error.to_string(), 503))?;
        self.tell(attributes, hook, &answer);
        if answer.allowed {
            return Ok(answer);
        }
        Err(Refusal::Denied(denial(&webhook.name, answer.status)))
    }

    fn tell(&self, attributes: &Attributes<'_>, hook: &Hook, answer: &Answer) {
        let name = &hook.webhook.name;
        for (key, value) in &answer.annotations {
            attributes.call.annotate(format!("{name}/{key}"), value);
        }
        // What does not fit into a header is dropped, as upstream does.
        let is_fit = |warning: &&String| !warning.is_empty() && !warning.contains(['\n', '\r']);
        for warning in answer.warnings.iter().filter(is_fit) {
            attributes.call.warn(warning);
        }
    }

    /// Counts an answer; for one that the failure policy forgives it is `None` what follows.
    pub(super) fn settle(
        &self,
        attributes: &Attributes<'_>,
        hook: &Hook,
        begun: Instant,
        refusal: Option<Refusal>,
    ) -> Settled {
        let (counts, counted) = (&self.outside.counts, self.counted(attributes, hook));
        let elapsed: Duration = begun.elapsed();
        let Some(refusal) = refusal else {
            counts.answered(counted, elapsed, false, 200);
            return Settled::Allowed;
        };
        let ignored = hook.webhook.failure == FailurePolicy::Ignore;
        let (why, code) = match &refusal {
            Refusal::Failed { reason, code } if ignored => {
                hook.tell(reason, true);
                counts.answered(counted, elapsed, false, *code);
                counts.failed_open(counted);
                return Settled::FailedOpen;
            }
            Refusal::Failed { reason, code } => {
                hook.tell(reason, false);
                (Rejection::CallFailed, *code)
            }
            Refusal::Denied(status) => (Rejection::Denied, code_of(status)),
            Refusal::Internal(_) => (Rejection::Internal, 0),
        };
        counts.rejected(counted, why, code);
        counts.answered(counted, elapsed, true, code);
        Settled::Refused(match refusal {
            Refusal::Failed { reason, .. } => Status::internal_error(format_args!(
                "failed calling webhook {:?}: {reason}",
                hook.webhook.name
            )),
            Refusal::Denied(status) | Refusal::Internal(status) => status,
        })
    }
}

/// What follows from an answer, or from the lack of one.
#[derive(Debug)]
pub(super) enum Settled {
    Allowed,
    /// The webhook could not be asked, and that does not matter.
    FailedOpen,
    Refused(Status),
}

fn code_of(status: &Status) -> u16 {
    status.code.try_into().unwrap_or(u16::MAX)
}

/// A write that is only tried must not be seen by who does something because of it.
fn check_dry_run(name: &str, effects: SideEffects) -> Result<(), Refusal> {
    match effects {
        SideEffects::None => Ok(()),
        SideEffects::Absent => Err(Refusal::failed("Webhook SideEffects is nil", 400)),
        SideEffects::Some => Err(Refusal::Internal(Status::bad_request(format!(
            "admission webhook {name:?} does not support dry run"
        )))),
    }
}

fn request<'a>(
    attributes: &'a Attributes<'_>,
    names: &'a Names,
    seen: &'a Seen<'_>,
    name: &'a str,
    uid: &'a str,
) -> Result<Request<'a>, Status> {
    Ok(Request {
        uid,
        seen: names,
        asked: &attributes.asked()?.names,
        subresource: attributes.subresource(),
        name,
        namespace: attributes.own_namespace(seen.object.as_deref()),
        operation: attributes.operation,
        user: user_info(attributes.call.user),
        object: seen.object.as_deref(),
        old: seen.old.as_deref(),
        dry_run: attributes.dry_run,
        options: seen.options.as_ref(),
    })
}

/// What the client is told when a webhook says no: its own words, and who it was.
fn denial(name: &str, status: Option<Status>) -> Status {
    let denied = format!("admission webhook {name:?} denied the request");
    // A webhook that gives no reason has none: upstream does not make one up.
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
