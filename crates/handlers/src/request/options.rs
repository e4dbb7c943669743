//! `CreateOptions`, `UpdateOptions`, `PatchOptions`, `DeleteOptions` and `ListOptions`, parsed and validated as
//! upstream does.

use rhumb_meta::field::{BadValue, Error, ErrorList, Path};
use rhumb_meta::{GroupKind, Status};
use serde::Deserialize;

use super::QueryParameters;
use rhumb_registry::{DeleteOptions, DeletionPropagation};

const FIELD_MANAGER_BYTES_MAX: usize = 128;

/// How unknown and duplicate fields of a body are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    Warn,
    Strict,
    /// Strict whatever the client requests, for this reason.
    ForcedStrict(&'static str),
}

/// The options of create, update and patch.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub field_manager: String,
    pub field_validation: FieldValidation,
}

impl WriteOptions {
    /// `kind` names the options in errors: `CreateOptions`, `UpdateOptions`, `PatchOptions`.
    pub fn parse(query: &QueryParameters, kind: &'static str) -> Result<WriteOptions, Status> {
        let mut errors = ErrorList::new();
        if kind == "PatchOptions" && query.get("force").is_some() {
            errors.push(Error::forbidden(
                &Path::new("force"),
                "may not be specified for non-apply patch",
            ));
        }
        let field_manager = query.text("fieldManager");
        check_field_manager(field_manager, &mut errors);
        let dry_run = parse_dry_run(query.all("dryRun"), &mut errors);
        let field_validation = match query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                errors.push(Error::not_supported(
                    &Path::new("fieldValidation"),
                    other,
                    &["", "Ignore", "Strict", "Warn"],
                ));
                FieldValidation::Warn
            }
        };
        invalid_unless_empty(kind, errors)?;
        Ok(WriteOptions {
            dry_run,
            field_manager: field_manager.to_owned(),
            field_validation,
        })
    }
}

fn check_field_manager(manager: &str, errors: &mut ErrorList) {
    let path = Path::new("fieldManager");
    if manager.len() > FIELD_MANAGER_BYTES_MAX {
        errors.push(Error::too_long(&path, FIELD_MANAGER_BYTES_MAX));
    }
    for (position, character) in manager.char_indices() {
        if character.is_control() {
            errors.push(Error::invalid(
                &path,
                manager,
                format!(
                    "invalid character U+{:04X} (at position {position})",
                    u32::from(character)
                ),
            ));
        }
    }
}

/// Whether a dry run is requested; `All` is the only valid value.
fn parse_dry_run<'a>(values: impl Iterator<Item = &'a str>, errors: &mut ErrorList) -> bool {
    let values: Vec<&str> = values.collect();
    if values.iter().any(|&value| value != "All") {
        errors.push(Error::not_supported(
            &Path::new("dryRun"),
            BadValue::json(&values),
            &["All"],
        ));
    }
    !values.is_empty()
}

fn invalid_unless_empty(kind: &'static str, errors: ErrorList) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(
        &GroupKind::new("meta.k8s.io", kind),
        "",
        &errors,
    ))
}

/// DeleteOptions as JSON in a request body. Unknown fields are ignored, as upstream does.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct DeleteOptionsBody {
    api_version: Option<String>,
    kind: Option<String>,
    grace_period_seconds: Option<i64>,
    propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    dry_run: Option<Vec<String>>,
    preconditions: Option<Preconditions>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

/// Parses `DeleteOptions`. As upstream does, options in the body replace those in the query.
pub fn parse_delete_options(query: &QueryParameters, body: &[u8]) -> Result<DeleteOptions, Status> {
    let body = if body.is_empty() {
        DeleteOptionsBody {
            grace_period_seconds: query.integer("gracePeriodSeconds")?,
            propagation_policy: query.get("propagationPolicy").map(str::to_owned),
            orphan_dependents: query
                .get("orphanDependents")
                .map(|_| query.flag("orphanDependents")),
            dry_run: Some(query.all("dryRun").map(str::to_owned).collect()),
            ..DeleteOptionsBody::default()
        }
    } else {
        let body: DeleteOptionsBody = serde_json::from_slice(body).map_err(|error| {
            Status::bad_request(format!(
                "couldn't get version/kind; json parse error: {error}"
            ))
        })?;
        if let Some(kind) = body.kind.as_deref().filter(|&kind| kind != "DeleteOptions") {
            return Err(Status::bad_request(format!(
                "no kind {kind:?} is registered for version {:?} in scheme \"pkg/runtime/scheme.go:111\"",
                body.api_version.as_deref().unwrap_or("meta.k8s.io/v1"),
            )));
        }
        body
    };
    body.validate()
}

impl DeleteOptionsBody {
    fn validate(self) -> Result<DeleteOptions, Status> {
        let body = self;
        let mut errors = ErrorList::new();
        let policy = body.propagation_policy.as_deref().unwrap_or_default();
        let path = Path::new("propagationPolicy");
        if body.propagation_policy.is_some() && body.orphan_dependents.is_some() {
            errors.push(Error::invalid(
                &path,
                policy,
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        let propagation = match policy {
            "" => None,
            "Orphan" => Some(DeletionPropagation::Orphan),
            "Background" => Some(DeletionPropagation::Background),
            "Foreground" => Some(DeletionPropagation::Foreground),
            other => {
                errors.push(Error::not_supported(
                    &path,
                    other,
                    &["Foreground", "Background", "Orphan", "nil"],
                ));
                None
            }
        };
        let dry_run = parse_dry_run(
            body.dry_run.iter().flatten().map(String::as_str),
            &mut errors,
        );
        invalid_unless_empty("DeleteOptions", errors)?;
        let preconditions = body.preconditions.unwrap_or_default();
        Ok(DeleteOptions {
            dry_run,
            // Upstream reads a negative period as one second.
            grace_period_seconds: body
                .grace_period_seconds
                .map(|seconds| if seconds < 0 { 1 } else { seconds }),
            propagation,
            orphan_dependents: body.orphan_dependents,
            precondition_uid: preconditions.uid,
            precondition_resource_version: preconditions.resource_version,
        })
    }
}

/// The `resourceVersionMatch` of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceVersionMatch {
    Exact,
    NotOlderThan,
}

/// The options of list, watch and deletecollection.
#[derive(Debug, Clone)]
pub struct ListOptions {
    pub label_selector: rhumb_meta::labels::Selector,
    pub field_selector: String,
    /// Empty when absent.
    pub resource_version: String,
    pub version_match: Option<ResourceVersionMatch>,
    pub limit: Option<usize>,
    pub continue_token: String,
    /// The timeout of a watch; a negative one ends it immediately.
    pub timeout_seconds: Option<i64>,
    pub allow_bookmarks: bool,
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    pub fn parse(query: &QueryParameters, watch: bool) -> Result<ListOptions, Status> {
        let label_selector = rhumb_meta::labels::Selector::parse(query.text("labelSelector"))
            .map_err(|error| Status::bad_request(error.to_string()))?;
        let send_initial_events = query
            .get("sendInitialEvents")
            .filter(|text| !text.is_empty())
            .map(|_| query.flag("sendInitialEvents"));
        let options = ListOptions {
            label_selector,
            field_selector: query.text("fieldSelector").to_owned(),
            resource_version: query.text("resourceVersion").to_owned(),
            version_match: match query.text("resourceVersionMatch") {
                "Exact" => Some(ResourceVersionMatch::Exact),
                "NotOlderThan" => Some(ResourceVersionMatch::NotOlderThan),
                _ => None,
            },
            limit: query
                .integer("limit")?
                .and_then(|limit| usize::try_from(limit).ok())
                .filter(|&limit| limit > 0),
            continue_token: query.text("continue").to_owned(),
            timeout_seconds: query
                .integer("timeoutSeconds")?
                .filter(|&seconds| seconds != 0),
            allow_bookmarks: query.flag("allowWatchBookmarks"),
            send_initial_events,
        };
        let mut errors = ErrorList::new();
        let given_match = query.text("resourceVersionMatch");
        if watch {
            options.check_watch(given_match, &mut errors);
        } else {
            options.check_list(given_match, &mut errors);
        }
        invalid_unless_empty("ListOptions", errors)?;
        Ok(options)
    }

    fn check_list(&self, given_match: &str, errors: &mut ErrorList) {
        let path = Path::new("resourceVersionMatch");
        if !given_match.is_empty() {
            if self.resource_version.is_empty() {
                errors.push(Error::forbidden(
                    &path,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            if !self.continue_token.is_empty() {
                errors.push(Error::forbidden(
                    &path,
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
            if self.version_match.is_none() {
                errors.push(Error::not_supported(
                    &path,
                    given_match,
                    &["Exact", "NotOlderThan", ""],
                ));
            }
            if self.version_match == Some(ResourceVersionMatch::Exact)
                && self.resource_version == "0"
            {
                errors.push(Error::forbidden(
                    &path,
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
        }
        if self.send_initial_events.is_some() {
            errors.push(Error::forbidden(
                &Path::new("sendInitialEvents"),
                "sendInitialEvents is forbidden for list",
            ));
        }
    }

    fn check_watch(&self, given_match: &str, errors: &mut ErrorList) {
        let path = Path::new("resourceVersionMatch");
        let not_older = self.version_match == Some(ResourceVersionMatch::NotOlderThan);
        if self.send_initial_events.is_some() && !not_older {
            errors.push(Error::forbidden(
                &path,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        // As upstream does, a watch from "" or "0" implies initial events, and the match that they require.
        let from_beginning = self.send_initial_events.is_none()
            && matches!(self.resource_version.as_str(), "" | "0");
        let continues = from_beginning && !self.continue_token.is_empty();
        if given_match.is_empty() && !continues {
            return;
        }
        if !given_match.is_empty() && self.send_initial_events.is_none() {
            errors.push(Error::forbidden(
                &path,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        if !given_match.is_empty() && !not_older {
            errors.push(Error::not_supported(&path, given_match, &["NotOlderThan"]));
        }
        if !self.continue_token.is_empty() {
            errors.push(Error::forbidden(
                &path,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> QueryParameters {
        QueryParameters::parse(text).unwrap()
    }

    fn write_error(text: &str) -> String {
        WriteOptions::parse(&query(text), "CreateOptions")
            .unwrap_err()
            .message
    }

    #[test]
    fn write_options_are_checked() {
        let options =
            WriteOptions::parse(&query("dryRun=All&fieldValidation=Strict"), "CreateOptions")
                .unwrap();
        assert!(options.dry_run);
        assert_eq!(options.field_validation, FieldValidation::Strict);
        assert_eq!(
            write_error("dryRun=Some"),
            r#"CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All""#
        );
        assert!(
            write_error("fieldValidation=Loose").contains("fieldValidation: Unsupported value")
        );
    }

    #[test]
    fn delete_options_come_from_body_or_query() {
        let options = parse_delete_options(
            &query("propagationPolicy=Orphan&gracePeriodSeconds=-5"),
            b"",
        )
        .unwrap();
        assert_eq!(options.propagation, Some(DeletionPropagation::Orphan));
        assert_eq!(options.grace_period_seconds, Some(1));
        let body = br#"{"kind":"DeleteOptions","propagationPolicy":"Foreground","preconditions":{"uid":"u"}}"#;
        let options = parse_delete_options(&query("propagationPolicy=Orphan"), body).unwrap();
        assert_eq!(options.propagation, Some(DeletionPropagation::Foreground));
        assert_eq!(options.precondition_uid.as_deref(), Some("u"));
        assert!(parse_delete_options(&query("propagationPolicy=Maybe"), b"").is_err());
        assert!(parse_delete_options(&query(""), br#"{"kind":"Pod"}"#).is_err());
        assert!(parse_delete_options(&query(""), b"{").is_err());
    }

    #[test]
    fn list_options_exclude_each_other() {
        for (text, watch, fine) in [
            ("limit=5", false, true),
            ("resourceVersion=5&resourceVersionMatch=Exact", false, true),
            ("resourceVersionMatch=Exact", false, false),
            ("resourceVersion=0&resourceVersionMatch=Exact", false, false),
            ("resourceVersion=5&resourceVersionMatch=Maybe", false, false),
            ("sendInitialEvents=true", false, false),
            (
                "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
                true,
                true,
            ),
            ("sendInitialEvents=true", true, false),
            ("resourceVersionMatch=NotOlderThan", true, false),
            ("continue=abc", true, false),
            ("continue=abc&resourceVersion=5", true, true),
            ("labelSelector=a==", false, true),
            ("labelSelector=a%20b", false, false),
        ] {
            assert_eq!(
                ListOptions::parse(&query(text), watch).is_ok(),
                fine,
                "{text}"
            );
        }
    }
}
