//! Serde types of the `kubescheduler.config.k8s.io/v1` configuration file. Unknown fields are rejected; fields
//! that have no effect here are accepted and ignored.

use serde::Deserialize;
use serde_saphyr::Spanned;

use super::args::RawPluginArgs;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct KubeSchedulerConfiguration {
    pub(super) api_version: String,
    pub(super) kind: Spanned<String>,
    pub(super) parallelism: Option<i32>,
    pub(super) leader_election: Option<LeaderElectionConfiguration>,
    pub(super) client_connection: Option<ClientConnectionConfiguration>,
    #[serde(rename = "enableProfiling")]
    _enable_profiling: Option<bool>,
    #[serde(rename = "enableContentionProfiling")]
    _enable_contention_profiling: Option<bool>,
    pub(super) percentage_of_nodes_to_score: Option<i32>,
    pub(super) pod_initial_backoff_seconds: Option<i64>,
    pub(super) pod_max_backoff_seconds: Option<i64>,
    pub(super) profiles: Option<Vec<KubeSchedulerProfile>>,
    pub(super) extenders: Option<Vec<serde::de::IgnoredAny>>,
    #[serde(rename = "delayCacheUntilActive")]
    _delay_cache_until_active: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct LeaderElectionConfiguration {
    pub(super) leader_elect: Option<bool>,
    pub(super) lease_duration: Option<String>,
    pub(super) renew_deadline: Option<String>,
    pub(super) retry_period: Option<String>,
    pub(super) resource_lock: Option<String>,
    pub(super) resource_name: Option<String>,
    pub(super) resource_namespace: Option<String>,
}

/// Rate limits and content types are accepted and ignored: the API server throttles with 429 instead.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ClientConnectionConfiguration {
    pub(super) kubeconfig: Option<String>,
    #[serde(rename = "acceptContentTypes")]
    _accept_content_types: Option<String>,
    #[serde(rename = "contentType")]
    _content_type: Option<String>,
    #[serde(rename = "qps")]
    _qps: Option<f32>,
    pub(super) burst: Option<i32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct KubeSchedulerProfile {
    pub(super) scheduler_name: Option<String>,
    pub(super) percentage_of_nodes_to_score: Option<i32>,
    pub(super) plugins: Option<Plugins>,
    pub(super) plugin_config: Option<Vec<PluginConfig>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Plugins {
    pub(super) multi_point: Option<PluginSet>,
    pub(super) pre_enqueue: Option<PluginSet>,
    pub(super) queue_sort: Option<PluginSet>,
    pub(super) pre_filter: Option<PluginSet>,
    pub(super) filter: Option<PluginSet>,
    pub(super) post_filter: Option<PluginSet>,
    pub(super) pre_score: Option<PluginSet>,
    pub(super) score: Option<PluginSet>,
    pub(super) reserve: Option<PluginSet>,
    pub(super) permit: Option<PluginSet>,
    pub(super) pre_bind: Option<PluginSet>,
    pub(super) bind: Option<PluginSet>,
    pub(super) post_bind: Option<PluginSet>,
    pub(super) placement_generate: Option<PluginSet>,
    pub(super) placement_score: Option<PluginSet>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PluginSet {
    pub(super) enabled: Option<Vec<Plugin>>,
    pub(super) disabled: Option<Vec<Plugin>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plugin {
    pub(super) name: String,
    pub(super) weight: Option<i32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PluginConfig {
    pub(super) name: String,
    pub(super) args: Option<RawPluginArgs>,
}
