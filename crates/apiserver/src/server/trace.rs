//! What is kept of a request while it is answered, for the audit log and the metrics.

use std::sync::Arc;
use std::time::Instant;

use http::Request;
use http::header::HeaderValue;
use rhumb_auth::{Grant, User};
use rhumb_meta::{Clock, Status};
use tokio::sync::OwnedSemaphorePermit;

use super::Peer;
use super::pipeline::Service;
use crate::audit::{AuditLog, Event, RequestFacts, Stage};
use crate::http::Reply;
use crate::metrics::Series;
use crate::request::{Query, RequestInfo};

pub(super) struct Trace {
    pub(super) audit_id: HeaderValue,
    pub(super) user: Option<Arc<User>>,
    pub(super) impersonated: Option<Arc<User>>,
    /// Given back when the answer is over.
    pub(super) place: Option<OwnedSemaphorePermit>,
    begun: Instant,
    decision: Option<Result<Grant, ()>>,
    /// Only where there is an audit log.
    facts: Option<Box<RequestFacts>>,
}

impl Trace {
    pub(super) fn begin<B>(
        service: &Service,
        request: &Request<B>,
        info: &RequestInfo,
        peer: &Peer,
        audit_id: HeaderValue,
    ) -> Trace {
        let facts = service.audit.as_ref().map(|_| {
            Box::new(RequestFacts::new(
                audit_id.clone(),
                request.uri(),
                info,
                &peer.address,
                request.headers(),
                service.api.clock.wall(),
            ))
        });
        Trace {
            audit_id,
            user: None,
            impersonated: None,
            place: None,
            begun: Instant::now(),
            decision: None,
            facts,
        }
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
            .and_then(|log| Some((log, self.event(code, reply.failure.take())?)));
        let ending = Ending {
            series,
            begun: self.begun,
            code,
            bytes: reply.body.bytes_total(),
            audit,
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

    fn event(&mut self, code: u16, failure: Option<Box<Status>>) -> Option<Event> {
        let facts = *self.facts.take()?;
        Some(Event {
            stage: Stage::ResponseComplete,
            stage_time: facts.received,
            facts,
            user: self.user.take(),
            impersonated: self.impersonated.take(),
            code,
            failure,
            decision: self.decision.take().map(|decision| match decision {
                Ok(grant) => (true, grant.to_string()),
                Err(()) => (false, String::new()),
            }),
        })
    }
}

/// Counts and logs a request when it is dropped, which is when its answer is over.
struct Ending {
    series: Arc<Series>,
    begun: Instant,
    code: u16,
    bytes: Option<u64>,
    audit: Option<(Arc<AuditLog>, Event)>,
    clock: Arc<dyn Clock>,
    long_running: bool,
    _place: Option<OwnedSemaphorePermit>,
}

impl Ending {
    fn begin_stream(&self) {
        self.series.long_running.inc();
        if let Some((log, event)) = &self.audit {
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
        if let Some((log, mut event)) = self.audit.take() {
            event.stage_time = self.clock.wall();
            log.record(event);
        }
    }
}
