//! Who did what, and when: one line of JSON for each request, in upstream's form.

mod event;
mod id;
mod policy;
mod writer;

pub use event::{Event, LEVEL, ObjectReference, RequestFacts, Stage};
pub use id::{AUDIT_ID, AuditIds};
pub use policy::Policy;
pub use writer::{AuditLog, Options};
