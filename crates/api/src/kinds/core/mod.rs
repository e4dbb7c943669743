//! Built-in kinds of the core API group, one module each.

mod binding;
mod component_status;
mod config_map;
mod endpoints;
pub(super) mod event;
mod limit_range;
mod namespace;
mod node;
mod persistent_volume;
pub(super) mod persistent_volume_claim;
mod pod;
mod pod_template;
mod replication_controller;
mod resource_quota;
mod secret;
mod service;
mod service_account;
mod volume_validation;

use crate::Kind;

pub use service::allocation as service_allocation;

pub(super) fn kinds() -> Vec<Kind> {
    vec![
        binding::kind(),
        component_status::kind(),
        config_map::kind(),
        endpoints::kind(),
        event::kind(),
        limit_range::kind(),
        namespace::kind(),
        node::kind(),
        persistent_volume::kind(),
        persistent_volume_claim::kind(),
        pod::kind(),
        pod_template::kind(),
        replication_controller::kind(),
        resource_quota::kind(),
        secret::kind(),
        service::kind(),
        service_account::kind(),
    ]
}
