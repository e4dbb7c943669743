//! What an operator configures of plugins: for now, what may be consumed only where a quota covers it.

use rhumb_admission::{Configured, configuration_of};
use rhumb_meta::{FileError, read_file};
use rhumb_quota::{Limited, LimitedForm};

use super::selection;

/// Reads a file in which plugins are configured.
pub fn read_configuration(text: &str) -> Result<Configured<Vec<Limited>>, FileError> {
    let configured = configuration_of(text, "ResourceQuota", selection::is_known)?;
    Ok(match configured {
        None => Configured::Here(Vec::new()),
        Some(Configured::Here(form)) => Configured::Here(LimitedForm::check(form)?),
        Some(Configured::In(path)) => Configured::In(path),
    })
}

/// Reads the file that such a file names for quotas.
pub fn read_limited(text: &str) -> Result<Vec<Limited>, FileError> {
    read_file::<LimitedForm>(text)?.check()
}

#[cfg(test)]
mod tests {
    use rhumb_quota::{Requirement, Scope};

    use super::*;

    #[test]
    fn the_example_limits_affinity_across_namespaces() {
        let example = include_str!("../../../../examples/admission/limited-resources.yaml");
        let Ok(Configured::Here(limited)) = read_configuration(example) else {
            panic!("the example is no configuration");
        };
        let [pods] = &limited[..] else {
            panic!("{limited:?}");
        };
        assert_eq!((&*pods.group, &*pods.resource), ("", "pods"));
        let scope = Requirement::exists("CrossNamespacePodAffinity");
        assert_eq!(scope.scope, Scope::CrossNamespacePodAffinity);
        assert_eq!(pods.scopes, [scope]);
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
            let bare = read_configuration(&file(&format!("name: {plugin}")));
            assert_eq!(bare, Ok(Configured::Here(Vec::new())));
            let error = read_configuration(&file(&format!("{{name: {plugin}, path: a.yaml}}")));
            let want = format!(
                "line 4, column 10: {plugin} cannot be configured in rhumb: only ResourceQuota can"
            );
            assert_eq!(error.map_err(|error| error.to_string()), Err(want));
        }
    }
}
