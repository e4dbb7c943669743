//! The values that upstream's OpenAPI lists for fields. The published documents lack them, so they come from upstream's
//! generated definitions.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::commands::root;

/// Values by field by type.
pub(super) struct EnumValues(BTreeMap<String, BTreeMap<String, Vec<String>>>);

impl EnumValues {
    pub(super) fn from_upstream() -> Result<EnumValues> {
        let output = Command::new("go")
            .args(["run", "./enums"])
            .current_dir(root().join("interop/kubernetes"))
            .output()
            .context("cannot run go: version 1.26 or later must be on the PATH")?;
        ensure!(
            output.status.success(),
            "interop/kubernetes/enums: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let values = serde_json::from_slice(&output.stdout)
            .context("cannot read the answer of interop/kubernetes/enums")?;
        Ok(EnumValues(values))
    }

    /// The values as the table has them: separated by `|`, with `_` for a space.
    pub(super) fn property(&self, of: &str, field: &str) -> Result<Option<String>> {
        let values = self.0.get(of).and_then(|fields| fields.get(field));
        let Some(values) = values else {
            return Ok(None);
        };
        let text = values.join("|");
        ensure!(
            text.matches('|').count() + 1 == values.len() && !text.contains('_'),
            "a value contains a separator: {text}"
        );
        Ok(Some(text.replace(' ', "_")))
    }
}
