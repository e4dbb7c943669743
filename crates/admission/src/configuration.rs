//! Parses the file of `--admission-control-config-file` (`AdmissionConfiguration`), which configures admission plugins.
//!
//! ```yaml
//! apiVersion: apiserver.config.k8s.io/v1
//! kind: AdmissionConfiguration
//! plugins:
//!   - name: ResourceQuota
//!     path: quota.yaml
//! ```
//!
//! Instead of a `path`, an entry can have the content of that file inline, as its `configuration`.

use std::collections::HashSet;

use rhumb_meta::{ConfigFileError, read_file};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_saphyr::Spanned;

const KIND: &str = "AdmissionConfiguration";
const API_VERSIONS: [&str; 2] = ["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"];

/// Where the configuration of a plugin is: inline or in another file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PluginConfigSource<T> {
    /// Inline, in the `configuration` field.
    Inline(T),
    /// In another file. A relative path starts at the folder of this file.
    Path(String),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AdmissionConfigurationFile<T> {
    api_version: String,
    kind: Spanned<String>,
    #[serde(default = "Option::default")]
    plugins: Option<Vec<AdmissionPluginConfiguration<T>>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AdmissionPluginConfiguration<T> {
    name: Spanned<String>,
    path: Option<Spanned<String>>,
    #[serde(default = "Option::default")]
    configuration: Option<T>,
}

/// Parses the file and returns the configuration of `plugin`, the only one that can be configured. Entries of other
/// known plugins must be empty: their configuration would be ignored silently.
pub fn plugin_configuration<T: DeserializeOwned>(
    text: &str,
    plugin: &str,
    is_known: impl Fn(&str) -> bool,
) -> Result<Option<PluginConfigSource<T>>, ConfigFileError> {
    // Other plugins' configurations have other fields, so entries are checked before this plugin's is decoded.
    let file: AdmissionConfigurationFile<IgnoredAny> = read_file(text)?;
    let (kind, version) = (&*file.kind.value, &*file.api_version);
    if kind != KIND || !API_VERSIONS.contains(&version) {
        let wanted = API_VERSIONS[0];
        let reason = format!("kind must be {KIND} of {wanted}, not {kind} of {version}");
        return Err(ConfigFileError::at(position_of(&file.kind), reason));
    }
    let mut named = HashSet::new();
    for entry in file.plugins.iter().flatten() {
        let name = &*entry.name.value;
        let reject = |reason: String| Err(ConfigFileError::at(position_of(&entry.name), reason));
        if !is_known(name) {
            return reject(format!("there is no admission plugin {name:?}"));
        }
        if !named.insert(name) {
            return reject(format!("plugin {name} is configured twice"));
        }
        match (entry.path(), &entry.configuration) {
            (Some(_), Some(_)) => {
                return reject(format!("{name} has both a path and a configuration"));
            }
            (None, None) => {}
            _ if name != plugin => {
                let reason = format!("{name} cannot be configured in rhumb: only {plugin} can");
                return reject(reason);
            }
            _ => {}
        }
    }
    let file: AdmissionConfigurationFile<T> = read_file(text)?;
    let mut plugins = file.plugins.into_iter().flatten();
    Ok(plugins
        .find(|entry| entry.name.value == plugin)
        .and_then(AdmissionPluginConfiguration::into_source))
}

impl<T> AdmissionPluginConfiguration<T> {
    /// An empty path counts as absent.
    fn path(&self) -> Option<&str> {
        let path = self.path.as_ref().map(|path| &*path.value);
        path.filter(|path| !path.is_empty())
    }

    fn into_source(self) -> Option<PluginConfigSource<T>> {
        let path = self.path().map(str::to_owned);
        let here = self.configuration.map(PluginConfigSource::Inline);
        here.or(path.map(PluginConfigSource::Path))
    }
}

fn position_of<T>(spanned: &Spanned<T>) -> (u64, u64) {
    (spanned.referenced.line(), spanned.referenced.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq, Eq)]
    #[serde(deny_unknown_fields)]
    struct TestPluginConfig {
        a: i32,
    }

    fn parse(text: &str) -> Result<Option<PluginConfigSource<TestPluginConfig>>, ConfigFileError> {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n";
        let is_known = |name: &str| matches!(name, "Mine" | "Other");
        plugin_configuration(&text.replace("HEAD", head), "Mine", is_known)
    }

    #[test]
    fn plugin_configuration_is_found() {
        let table = [
            ("HEAD", None),
            ("HEADplugins:\n", None),
            ("HEADplugins: []\n", None),
            ("HEADplugins:\n- name: Mine\n", None),
            (
                "HEADplugins:\n- name: Other\n  path: ''\n- name: Mine\n  configuration:\n",
                None,
            ),
            (
                "HEADplugins:\n- name: Other\n- name: Mine\n  path: a/b.yaml\n",
                Some(PluginConfigSource::Path("a/b.yaml".to_owned())),
            ),
            (
                "HEADplugins:\n- name: Mine\n  configuration: {a: 1}\n",
                Some(PluginConfigSource::Inline(TestPluginConfig { a: 1 })),
            ),
            (
                r#"{"apiVersion": "apiserver.k8s.io/v1alpha1", "kind": "AdmissionConfiguration", "plugins": [{"name": "Mine", "configuration": {"a": 1}}]}"#,
                Some(PluginConfigSource::Inline(TestPluginConfig { a: 1 })),
            ),
        ];
        for (text, want) in table {
            assert_eq!(parse(text).as_ref(), Ok(&want), "{text}");
        }
    }

    #[test]
    fn files_are_parsed_strictly() {
        let table = [
            ("", "the file is empty"),
            ("plugins: [", "line 1, column "),
            ("[]", "line 1, column 1: "),
            ("plugins: []", "missing field `apiVersion`"),
            ("HEADplugins: all\n", "line 3, column 10: "),
            ("HEADplugin: []\n", "line 3, column 1: unknown field"),
            (
                "kind: AdmissionConfiguration\napiVersion: apiserver.config.k8s.io/v2\n",
                "line 1, column 7: kind must be AdmissionConfiguration of apiserver.config.k8s.io/v1, not AdmissionConfiguration of apiserver.config.k8s.io/v2",
            ),
            (
                "kind: Policy\napiVersion: audit.k8s.io/v1\n",
                "line 1, column 7: kind must be AdmissionConfiguration of apiserver.config.k8s.io/v1, not Policy of audit.k8s.io/v1",
            ),
            ("HEADplugins:\n- path: a\n", "missing field `name`"),
            (
                "HEADplugins:\n- name: Mine\n  file: a\n",
                "line 5, column 3: unknown field",
            ),
            (
                "HEADplugins:\n- name: Mine\n  name: Mine\n",
                "line 5, column 3: duplicate",
            ),
            (
                "HEADplugins:\n- name: Yours\n",
                "line 4, column 9: there is no admission plugin \"Yours\"",
            ),
            (
                "HEADplugins:\n- name: Mine\n- name: Mine\n",
                "line 5, column 9: plugin Mine is configured twice",
            ),
            (
                "HEADplugins:\n- name: Mine\n  path: a\n  configuration: {a: 1}\n",
                "line 4, column 9: Mine has both a path and a configuration",
            ),
            (
                "HEADplugins:\n- name: Other\n  path: a\n",
                "line 4, column 9: Other cannot be configured in rhumb: only Mine can",
            ),
            (
                "HEADplugins:\n- name: Other\n  configuration: {b: 1}\n",
                "line 4, column 9: Other cannot be configured in rhumb: only Mine can",
            ),
            (
                "HEADplugins:\n- name: Mine\n  configuration:\n    b: 1\n",
                "line 6, column 5: unknown field",
            ),
            (
                "HEADplugins:\n- name: Mine\n  configuration: {a: x}\n",
                "line 5, column 22: ",
            ),
        ];
        for (text, want) in table {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(want), "{text:?}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        let long = format!("# {}", "a".repeat(300_000));
        let error = parse(&long)
            .expect_err("a file that is too long is rejected")
            .to_string();
        assert_eq!(error, "the file is longer than 262144 bytes");
    }
}
