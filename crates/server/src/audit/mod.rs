//! Audit log: one line of JSON per request and stage, in the format of `audit.k8s.io/v1` (upstream: the log backend of
//! `k8s.io/apiserver/plugin/pkg/audit`).

mod event;
mod id;
mod policy;
mod writer;

pub use event::{AuditEvent, AuditStage, AuditedRequest, ObjectReference};
pub use id::{AUDIT_ID, AuditIdGenerator};
pub use policy::{AuditLevel, AuditPolicy, RequestAuditConfig};
pub use writer::{AuditLog, AuditLogOptions};
