//! The admission plugins, webhooks and policies of the API server (upstream: `kubernetes/plugin/pkg/admission` and
//! `k8s.io/apiserver/pkg/admission/plugin`).
//!
//! [`AdmissionPlugins`] is the chain in upstream's order (`plugin_list.rs`) and what its plugins share. Plugins look up
//! other objects with `object_lookup.rs`. Their interface, the order of mutation and validation, and the guards that
//! must still hold at the commit belong to the crate `registry`; decisions that need no server are in `admission`.

#![cfg_attr(
    not(test),
    warn(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable
    )
)]

mod admission_plugins;
mod cache_derived_value;
mod cel_inputs;
mod certificates;
mod configuration;
mod critical_webhooks;
mod default_classes;
mod default_tolerations;
mod escalation;
mod exclusion_counters;
mod exclusion_rule_warnings;
mod limit_ranger;
mod metrics;
mod namespace_labels;
mod namespace_lifecycle;
mod network_policy_reports;
mod node_taint;
mod object_lookup;
mod plugin_list;
mod pod_resize;
mod pod_security_warnings;
mod pod_topology_labels;
mod policies;
mod priority;
mod resource_quota;
mod runtime_class;
mod server_services;
mod service_account;
mod storage_protection;
mod template_quota_warnings;
mod volume_resize;
mod webhooks;
mod writable_resources;

pub use admission_plugins::AdmissionPlugins;
pub use configuration::{read_admission_configuration, read_limited_resources};
pub use critical_webhooks::read_critical_resources;
pub use metrics::AdmissionMetrics;
pub use plugin_list::{AdmissionOptions, PluginFlagError};
pub use rhumb_admission::PluginConfigSource;
pub use rhumb_quota::LimitedResource;
pub use server_services::ServerServices;
