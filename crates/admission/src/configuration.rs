//! The file in which plugins of admission are configured.
//!
//! ```yaml
//! apiVersion: apiserver.config.k8s.io/v1
//! kind: AdmissionConfiguration
//! plugins:
//!   - name: ResourceQuota
//!     path: quota.yaml
//! ```
//!
//! Instead of a path an entry can have what would be in that file, as its `configuration`.

use std::collections::HashSet;

use rhumb_meta::{FileError, read_file};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_saphyr::Spanned;

const KIND: &str = "AdmissionConfiguration";
const API_VERSIONS: [&str; 2] = ["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"];

/// Where the configuration of a plugin is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Configured<T> {
    /// In the file itself.
    Here(T),
    /// In another file. Its path begins at the folder of this one, unless it is absolute.
    In(String),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File<T> {
    api_version: String,
    kind: Spanned<String>,
    #[serde(default = "Option::default")]
    plugins: Option<Vec<Plugin<T>>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plugin<T> {
    name: Spanned<String>,
    path: Option<Spanned<String>>,
    #[serde(default = "Option::default")]
    configuration: Option<T>,
}

/// What a file says for one plugin. Others that are known may be named; there is nothing to say for them, and who
/// says something shall not believe that it is heard.
pub fn configuration_of<T: DeserializeOwned>(
    text: &str,
    plugin: &str,
    is_known: impl Fn(&str) -> bool,
) -> Result<Option<Configured<T>>, FileError> {
    // What is said for others has another form, so the form of what is said is looked at last.
    let file: File<IgnoredAny> = read_file(text)?;
    let (kind, version) = (&*file.kind.value, &*file.api_version);
    if kind != KIND || !API_VERSIONS.contains(&version) {
        let wanted = API_VERSIONS[0];
        let reason = format!("its kind is {kind} of {version}, and must be {KIND} of {wanted}");
        return Err(FileError::at(place(&file.kind), reason));
    }
    let mut named = HashSet::new();
    for entry in file.plugins.iter().flatten() {
        let name = &*entry.name.value;
        let refuse = |reason: String| Err(FileError::at(place(&entry.name), reason));
        if !is_known(name) {
            return refuse(format!("there is no admission plugin {name:?}"));
        }
        if !named.insert(name) {
            return refuse(format!("the plugin {name} is named twice"));
        }
        match (entry.path(), &entry.configuration) {
            (Some(_), Some(_)) => {
                return refuse(format!("{name} has both a path and a configuration"));
            }
            (None, None) => {}
            _ if name != plugin => {
                let reason = format!("{name} cannot be configured in rhumb: only {plugin} can");
                return refuse(reason);
            }
            _ => {}
        }
    }
    let file: File<T> = read_file(text)?;
    let mut plugins = file.plugins.into_iter().flatten();
    Ok(plugins
        .find(|entry| entry.name.value == plugin)
        .and_then(Plugin::configured))
}

impl<T> Plugin<T> {
    /// An empty path is none.
    fn path(&self) -> Option<&str> {
        let path = self.path.as_ref().map(|path| &*path.value);
        path.filter(|path| !path.is_empty())
    }

    fn configured(self) -> Option<Configured<T>> {
        let path = self.path().map(str::to_owned);
        let here = self.configuration.map(Configured::Here);
        here.or(path.map(Configured::In))
    }
}

fn place<T>(spanned: &Spanned<T>) -> (u64, u64) {
    (spanned.referenced.line(), spanned.referenced.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq, Eq)]
    #[serde(deny_unknown_fields)]
    struct Form {
        a: i32,
    }

    fn read(text: &str) -> Result<Option<Configured<Form>>, FileError> {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n";
        let is_known = |name: &str| matches!(name, "Mine" | "Other");
        configuration_of(&text.replace("HEAD", head), "Mine", is_known)
    }

    #[test]
    fn what_is_said_for_the_plugin_is_found() {
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
                Some(Configured::In("a/b.yaml".to_owned())),
            ),
            (
                "HEADplugins:\n- name: Mine\n  configuration: {a: 1}\n",
                Some(Configured::Here(Form { a: 1 })),
            ),
            (
                r#"{"apiVersion": "apiserver.k8s.io/v1alpha1", "kind": "AdmissionConfiguration", "plugins": [{"name": "Mine", "configuration": {"a": 1}}]}"#,
                Some(Configured::Here(Form { a: 1 })),
            ),
        ];
        for (text, want) in table {
            assert_eq!(read(text).as_ref(), Ok(&want), "{text}");
        }
    }

    #[test]
    fn files_are_read_strictly() {
        let table = [
            ("", "it is empty"),
            ("plugins: [", "line 1, column "),
            ("[]", "line 1, column 1: "),
            ("plugins: []", "missing field `apiVersion`"),
            ("HEADplugins: all\n", "line 3, column 10: "),
            ("HEADplugin: []\n", "line 3, column 1: unknown field"),
            (
                "kind: AdmissionConfiguration\napiVersion: apiserver.config.k8s.io/v2\n",
                "line 1, column 7: its kind is AdmissionConfiguration of apiserver.config.k8s.io/v2, and must be AdmissionConfiguration of apiserver.config.k8s.io/v1",
            ),
            (
                "kind: Policy\napiVersion: audit.k8s.io/v1\n",
                "line 1, column 7: its kind is Policy of audit.k8s.io/v1",
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
                "line 5, column 9: the plugin Mine is named twice",
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
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(want), "{text:?}: {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        let long = format!("# {}", "a".repeat(300_000));
        let error = read(&long).expect_err("too long").to_string();
        assert_eq!(error, "it is longer than 262144 bytes");
    }
}
