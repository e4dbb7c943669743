//! All built-in kinds, one file each, in one folder per API group. Entry point: [`all`].

mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apps;
mod authentication;
mod authorization;
mod autoscaling;
mod batch;
mod certificates;
mod coordination;
mod core;
mod discovery;
mod events;
mod flowcontrol;
mod networking;
mod node;
mod policy;
mod rbac;
mod resource;
mod rhumb_networking;
mod scheduling;
mod storage;

use crate::Kind;

pub use admissionregistration::exclusion_rule_problems;
pub use core::service_allocation;

/// All built-in kinds, in the order in which discovery lists them.
pub fn all() -> Vec<Kind> {
    [
        core::kinds(),
        admissionregistration::kinds(),
        apiextensions::kinds(),
        apiregistration::kinds(),
        apps::kinds(),
        authentication::kinds(),
        authorization::kinds(),
        autoscaling::kinds(),
        batch::kinds(),
        certificates::kinds(),
        coordination::kinds(),
        discovery::kinds(),
        events::kinds(),
        flowcontrol::kinds(),
        networking::kinds(),
        node::kinds(),
        policy::kinds(),
        rbac::kinds(),
        resource::kinds(),
        scheduling::kinds(),
        storage::kinds(),
        rhumb_networking::kinds(),
    ]
    .concat()
}
