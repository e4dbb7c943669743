//! Reads the plugin configuration of operators: for now, the limited resources of ResourceQuota.

use rhumb_admission::{PluginConfigSource, plugin_configuration};
use rhumb_meta::{ConfigFileError, read_file};
use rhumb_quota::{LimitedResource, ResourceQuotaConfiguration};

use super::plugin_list;

/// Reads the file of `--admission-control-config-file`.
pub fn read_admission_configuration(
    text: &str,
) -> Result<PluginConfigSource<Vec<LimitedResource>>, ConfigFileError> {
    let configured = plugin_configuration(text, "ResourceQuota", plugin_list::is_known_plugin)?;
    Ok(match configured {
        None => PluginConfigSource::Inline(Vec::new()),
        Some(PluginConfigSource::Inline(configuration)) => PluginConfigSource::Inline(
            ResourceQuotaConfiguration::into_limited_resources(configuration)?,
        ),
        Some(PluginConfigSource::Path(path)) => PluginConfigSource::Path(path),
    })
}

/// Reads the ResourceQuota configuration file that it references.
pub fn read_limited_resources(text: &str) -> Result<Vec<LimitedResource>, ConfigFileError> {
    read_file::<ResourceQuotaConfiguration>(text)?.into_limited_resources()
}

#[cfg(test)]
mod tests {
    use rhumb_quota::{QuotaScope, ScopeRequirement};

    use super::*;

    #[test]
    fn the_example_limits_cross_namespace_affinity() {
        let example = include_str!("../../../examples/admission/limited-resources.yaml");
        let Ok(PluginConfigSource::Inline(limited)) = read_admission_configuration(example) else {
            panic!("the example is not a valid configuration");
        };
        let [pods] = &limited[..] else {
            panic!("{limited:?}");
        };
        assert_eq!((&*pods.group, &*pods.resource), ("", "pods"));
        let scope = ScopeRequirement::exists("CrossNamespacePodAffinity");
        assert_eq!(scope.scope, QuotaScope::CrossNamespacePodAffinity);
        assert_eq!(pods.match_scopes, [scope]);
    }

    #[test]
    fn other_plugins_cannot_be_configured() {
        for plugin in [
            "PodSecurity",
            "EventRateLimit",
            "ImagePolicyWebhook",
            "PodNodeSelector",
        ] {
            let file = |entry: &str| {
                format!(
                    "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- {entry}\n"
                )
            };
            let bare = read_admission_configuration(&file(&format!("name: {plugin}")));
            assert_eq!(bare, Ok(PluginConfigSource::Inline(Vec::new())));
            let error =
                read_admission_configuration(&file(&format!("{{name: {plugin}, path: a.yaml}}")));
            let want = format!(
                "line 4, column 10: {plugin} cannot be configured in rhumb: only ResourceQuota can"
            );
            assert_eq!(error.map_err(|error| error.to_string()), Err(want));
        }
    }
}
