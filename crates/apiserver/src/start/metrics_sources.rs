//! The metrics of admission and of quotas, as sources of `/metrics`.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::text::encode_registry;

use rhumb_admission_plugins::AdmissionPlugins;
use rhumb_handlers::MetricsSource;
use rhumb_quota_enforcement::QuotaEnforcer;

#[derive(Debug)]
pub(super) struct AdmissionMetricsSource(pub(super) AdmissionPlugins);

impl MetricsSource for AdmissionMetricsSource {
    fn encode(&self, text: &mut String) -> fmt::Result {
        encode_registry(text, self.0.metrics().exposition())
    }
}

#[derive(Debug)]
pub(super) struct QuotaMetricsSource(pub(super) Arc<QuotaEnforcer>);

impl MetricsSource for QuotaMetricsSource {
    fn encode(&self, text: &mut String) -> fmt::Result {
        encode_registry(text, self.0.metrics().registry())
    }
}
