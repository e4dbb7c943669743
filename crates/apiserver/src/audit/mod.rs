//! Who did what, and when: one line of JSON for each request, in upstream's form.

mod body;
mod event;
mod id;
mod notes;
mod policy;
mod writer;

pub use body::{ANSWER_BYTES_MAX, Recorder};
pub use event::{Event, ObjectReference, RequestFacts, Stage};
pub use id::{AUDIT_ID, AuditIds};
pub use notes::Notes;
pub use policy::{Level, Policy, Terms};
pub use writer::{AuditLog, Options};
