//! What is kept of a request while it is answered, for the audit log and the metrics.

use std::sync::Arc;
use std::time::Instant;

use http::Request;
use http::header::HeaderValue;
use rhumb_auth::{Grant, User};
use rhumb_meta::{Clock, Status};

use super::Peer;
use super::inflight::Place;
use super::pipeline::Service;
use crate::audit::{AuditLog, Event, Level, Recorder, RequestFacts, Stage, Terms};
use crate::http::{Logged, Reply};
use crate::metrics::Series;
use crate::request::{ApiPath, Query, RequestInfo};

pub(super) struct Trace {
    pub(super) audit_id: HeaderValue,
    user: Option<Arc<User>>,
    pub(super) impersonated: Option<Arc<User>>,
    /// Given back when the answer is over.
    pub(super) place: Option<Arc<Place>>,
    begun: Instant,
    decision: Option<Result<Grant, ()>>,
    /// Only where there is an audit log.
    audit: Option<Box<Audit>>,
}

/// What the audit log wants to know of a request.
struct Audit {
    facts: RequestFacts,
    /// `None` until it is known who asks.
    terms: Option<Terms>,
    recorder: Option<Recorder>,
}

impl Trace {
    pub(super) fn begin<B>(
        service: &Service,
        request: &Request<B>,
        info: &RequestInfo,
        peer: &Peer,
        audit_id: HeaderValue,
    ) -> Trace {
        let audit = service.audit.as_ref().map(|_| {
            Box::new(Audit {
                facts: RequestFacts::new(
                    audit_id.clone(),
                    request.uri(),
                    info,
                    &peer.address,
                    request.headers(),
                    service.api.clock.wall(),
                ),
                terms: None,
                recorder: None,
            })
        });
        Trace {
            audit_id,
            user: None,
            impersonated: None,
            place: None,
            begun: Instant::now(),
            decision: None,
            audit,
        }
    }

    /// Now that it is known who asks, the policy tells what is logged.
    pub(super) fn authenticated(&mut self, service: &Service, user: Arc<User>) {
        if let (Some(log), Some(mut audit)) = (&service.audit, self.audit.take()) {
            self.audit = log.policy().terms(&audit.facts, Some(&user)).map(|terms| {
                audit.recorder = Recorder::of(terms.level);
                audit.terms = Some(terms);
                audit
            });
        }
        self.user = Some(user);
    }

    /// Where the body of the request is put for the log, if that has it.
    pub(super) fn recorder(&self) -> Option<&Recorder> {
        self.audit.as_ref()?.recorder.as_ref()
    }

    pub(super) fn is_audited(&self) -> bool {
        self.audit.is_some()
    }

    /// Remembers whether the request was allowed, and why.
    pub(super) fn decision(&mut self, decision: Result<Grant, Status>) -> Result<(), Status> {
        match decision {
            Ok(grant) => {
                self.decision = Some(Ok(grant));
                Ok(())
            }
            Err(status) => {
                self.decision = Some(Err(()));
                Err(status)
            }
        }
    }

    /// Counts and logs the answer: a stream when it is over, everything else now.
    pub(super) fn end(
        mut self,
        service: &Service,
        info: &RequestInfo,
        query: &Query,
        mut reply: Reply,
    ) -> Reply {
        let series = service
            .metrics
            .requests
            .series(info, query, &service.api.registry);
        let code = reply.code.as_u16();
        let audit = service
            .audit
            .clone()
            .and_then(|log| self.event(&log, info, &mut reply).map(|event| (log, event)));
        let ending = Ending {
            series,
            begun: self.begun,
            code,
            bytes: reply.body.bytes_total(),
            audit: audit.map(Box::new),
            clock: service.api.clock.clone(),
            long_running: reply.is_long_running(),
            _place: self.place.take(),
        };
        if reply.is_long_running() {
            ending.begin_stream();
            return reply.holding(ending);
        }
        reply
    }

    fn event(&mut self, log: &AuditLog, info: &RequestInfo, reply: &mut Reply) -> Option<Event> {
        let Audit {
            facts,
            terms,
            recorder,
        } = *self.audit.take()?;
        let terms = match terms {
            Some(terms) => terms,
            None => log.policy().terms(&facts, None)?,
        };
        let logged = match terms.level {
            Level::RequestResponse if has_object(info, reply) => reply.take_logged(),
            _ => Logged::Nothing,
        };
        Some(Event {
            terms,
            stage: Stage::ResponseComplete,
            stage_time: facts.received,
            facts,
            user: self.user.take(),
            impersonated: self.impersonated.take(),
            code: reply.code.as_u16(),
            failure: reply.failure.take(),
            notes: std::mem::take(&mut reply.annotations),
            decision: self.decision.take().map(|decision| match decision {
                Ok(grant) => (true, grant.to_string()),
                Err(()) => (false, String::new()),
            }),
            request: recorder.and_then(Recorder::into_request),
            truncated: matches!(logged, Logged::TooLong),
            answer: match logged {
                Logged::Json(json) => Some(json),
                Logged::Body | Logged::Nothing | Logged::TooLong => None,
            },
        })
    }
}

/// Whether an answer is an object, and not just any document.
fn has_object(info: &RequestInfo, reply: &Reply) -> bool {
    info.target.is_some() || reply.failure.is_some() || ApiPath::parse(&info.path).is_some()
}

/// Counts and logs a request when it is dropped, which is when its answer is over.
struct Ending {
    series: Arc<Series>,
    begun: Instant,
    code: u16,
    bytes: Option<u64>,
    /// In a box of its own: most watches are in no log, and they last.
    audit: Option<Box<(Arc<AuditLog>, Event)>>,
    clock: Arc<dyn Clock>,
    long_running: bool,
    _place: Option<Arc<Place>>,
}

impl Ending {
    fn begin_stream(&self) {
        self.series.long_running.inc();
        if let Some((log, event)) = self.audit.as_deref() {
            log.record(Event {
                stage: Stage::ResponseStarted,
                stage_time: self.clock.wall(),
                ..event.clone()
            });
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.long_running {
            self.series.long_running.dec();
        }
        self.series
            .ended(self.code, self.begun.elapsed(), self.bytes);
        if let Some((log, mut event)) = self.audit.take().map(|audit| *audit) {
            event.stage_time = self.clock.wall();
            log.record(event);
        }
    }
}
