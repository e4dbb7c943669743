//! Services that plugins use beyond the registry. The chain is built from flags, before the server; so they are attached
//! when the server starts.

use std::sync::{Arc, OnceLock};

use rhumb_auth::RbacPolicyIndex;
use rhumb_meta::Status;

use rhumb_quota_enforcement::QuotaEnforcer;

#[derive(Debug)]
pub struct ServerServices {
    pub policy: Arc<RbacPolicyIndex>,
    pub quota_enforcer: Arc<QuotaEnforcer>,
}

/// The services, as soon as they are attached.
#[derive(Debug, Clone, Default)]
pub(super) struct AttachedServices(Arc<OnceLock<ServerServices>>);

impl AttachedServices {
    pub(super) fn attach(&self, services: ServerServices) {
        // A chain serves one server, so nothing is attached before.
        let _ = self.0.set(services);
    }

    pub(super) fn get(&self) -> Result<&ServerServices, Status> {
        let services = self.0.get();
        services.ok_or_else(|| Status::internal_error("the server has not started yet"))
    }
}
