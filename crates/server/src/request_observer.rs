//! Collects what the audit log and the metrics need of a request, and records both when its response is complete.

use std::sync::Arc;
use std::time::Instant;

use http::Request;
use http::header::HeaderValue;
use rhumb_auth::{AllowReason, User};
use rhumb_meta::{Clock, Status};

use super::ConnectionPeer;
use super::handler_chain::HttpService;
use crate::audit::{
    AuditEvent, AuditLevel, AuditLog, AuditStage, AuditedRequest, RequestAuditConfig,
};
use crate::metrics::RequestSeries;
use rhumb_handlers::audit_body::AuditRequestRecorder;
use rhumb_handlers::http::{AuditedBody, Reply};
use rhumb_handlers::request::{DiscoveryPath, QueryParameters, RequestInfo};
use rhumb_registry::InFlightPermit;

/// Per-request state for auditing and metrics.
pub(super) struct RequestObserver {
    pub(super) audit_id: HeaderValue,
    user: Option<Arc<User>>,
    pub(super) impersonated: Option<Arc<User>>,
    /// Released when the response is complete.
    pub(super) permit: Option<Arc<InFlightPermit>>,
    started: Instant,
    authorization: Option<Result<AllowReason, ()>>,
    /// `None` without an audit log, or if the policy does not log the request.
    audit_context: Option<Box<AuditContext>>,
}

/// Audit state of one request.
struct AuditContext {
    request: AuditedRequest,
    /// `None` until the request is authenticated: the policy selects by user.
    config: Option<RequestAuditConfig>,
    recorder: Option<AuditRequestRecorder>,
}

impl RequestObserver {
    pub(super) fn begin<B>(
        service: &HttpService,
        request: &Request<B>,
        info: &RequestInfo,
        peer: &ConnectionPeer,
        audit_id: HeaderValue,
    ) -> RequestObserver {
        let audit_context = service.audit.as_ref().map(|_| {
            Box::new(AuditContext {
                request: AuditedRequest::new(
                    audit_id.clone(),
                    request.uri(),
                    info,
                    &peer.address,
                    request.headers(),
                    service.state.registry.clock.wall(),
                ),
                config: None,
                recorder: None,
            })
        });
        RequestObserver {
            audit_id,
            user: None,
            impersonated: None,
            permit: None,
            started: Instant::now(),
            authorization: None,
            audit_context,
        }
    }

    /// Evaluates the audit policy for the authenticated user.
    pub(super) fn authenticated(&mut self, service: &HttpService, user: Arc<User>) {
        if let (Some(log), Some(mut audit)) = (&service.audit, self.audit_context.take()) {
            self.audit_context = log
                .policy()
                .evaluate(&audit.request, Some(&user))
                .map(|config| {
                    audit.recorder = config.level.body_recorder();
                    audit.config = Some(config);
                    audit
                });
        }
        self.user = Some(user);
    }

    /// Records the request body, if the audit level includes it.
    pub(super) fn recorder(&self) -> Option<&AuditRequestRecorder> {
        self.audit_context.as_ref()?.recorder.as_ref()
    }

    pub(super) fn is_audited(&self) -> bool {
        self.audit_context.is_some()
    }

    /// Records the authorization decision and its reason.
    pub(super) fn record_authorization(
        &mut self,
        decision: Result<AllowReason, Status>,
    ) -> Result<(), Status> {
        match decision {
            Ok(grant) => {
                self.authorization = Some(Ok(grant));
                Ok(())
            }
            Err(status) => {
                self.authorization = Some(Err(()));
                Err(status)
            }
        }
    }

    /// Records metrics and audit event: of a stream when it ends, of any other response now.
    pub(super) fn finish(
        mut self,
        service: &HttpService,
        info: &RequestInfo,
        query: &QueryParameters,
        mut reply: Reply,
    ) -> Reply {
        let series =
            service
                .metrics
                .requests
                .series(info, query, &service.state.registry.resources());
        let code = reply.code.as_u16();
        let audit = service.audit.clone().and_then(|log| {
            self.audit_event(&log, info, &mut reply)
                .map(|event| (log, event))
        });
        let completion = RequestCompletionGuard {
            series,
            started: self.started,
            code,
            bytes: reply.body.bytes_total(),
            audit: audit.map(Box::new),
            clock: service.state.registry.clock.clone(),
            long_running: reply.is_long_running(),
            _permit: self.permit.take(),
        };
        if reply.is_long_running() {
            completion.record_stream_start();
            return reply.with_guard(completion);
        }
        reply
    }

    fn audit_event(
        &mut self,
        log: &AuditLog,
        info: &RequestInfo,
        reply: &mut Reply,
    ) -> Option<AuditEvent> {
        let AuditContext {
            request: audited_request,
            config,
            recorder,
        } = *self.audit_context.take()?;
        let config = match config {
            Some(config) => config,
            None => log.policy().evaluate(&audited_request, None)?,
        };
        let body = match config.level {
            AuditLevel::RequestResponse if is_api_object(info, reply) => reply.take_audited_body(),
            _ => AuditedBody::Nothing,
        };
        Some(AuditEvent {
            config,
            stage: AuditStage::ResponseComplete,
            stage_time: audited_request.received,
            audited_request,
            user: self.user.take(),
            impersonated: self.impersonated.take(),
            code: reply.code.as_u16(),
            failure: reply.failure.take(),
            admission_annotations: std::mem::take(&mut reply.annotations),
            authorization: self.authorization.take().map(|decision| match decision {
                Ok(grant) => (true, grant.to_string()),
                Err(()) => (false, String::new()),
            }),
            request: recorder.and_then(AuditRequestRecorder::into_request),
            truncated: matches!(body, AuditedBody::TooLong),
            response: match body {
                AuditedBody::Json(json) => Some(json),
                AuditedBody::Body | AuditedBody::Nothing | AuditedBody::TooLong => None,
            },
        })
    }
}

/// Whether the response is an API object, and not another document such as `/version`.
fn is_api_object(info: &RequestInfo, reply: &Reply) -> bool {
    info.resource_path.is_some()
        || reply.failure.is_some()
        || DiscoveryPath::parse(&info.path).is_some()
}

/// Records metrics and audit event of a request when dropped, that is, when its response is complete.
struct RequestCompletionGuard {
    series: Arc<RequestSeries>,
    started: Instant,
    code: u16,
    bytes: Option<u64>,
    /// Boxed to save memory: most watches are not audited, and they are long-lived.
    audit: Option<Box<(Arc<AuditLog>, AuditEvent)>>,
    clock: Arc<dyn Clock>,
    long_running: bool,
    _permit: Option<Arc<InFlightPermit>>,
}

impl RequestCompletionGuard {
    fn record_stream_start(&self) {
        self.series.long_running.inc();
        if let Some((log, event)) = self.audit.as_deref() {
            log.record(AuditEvent {
                stage: AuditStage::ResponseStarted,
                stage_time: self.clock.wall(),
                ..event.clone()
            });
        }
    }
}

impl Drop for RequestCompletionGuard {
    fn drop(&mut self) {
        if self.long_running {
            self.series.long_running.dec();
        }
        self.series
            .record(self.code, self.started.elapsed(), self.bytes);
        if let Some((log, mut event)) = self.audit.take().map(|audit| *audit) {
            event.stage_time = self.clock.wall();
            log.record(event);
        }
    }
}
