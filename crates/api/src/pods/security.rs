//! Validation of security contexts of pods and containers, seccomp and AppArmor profiles, and sysctls.

use rhumb_meta::field::{BadValue, Error, ErrorList};
use serde_json::Value;

use super::{PodValidationOptions, checks, windows};
use crate::FieldView;
use crate::small_map::SmallSet;

const PROFILE_TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
const PROFILE_MAX_BYTES: usize = 4095;
const SYSCTL_MAX_BYTES: usize = 253;
const SYSCTL_NAME: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// Sysctls of the IPC namespace.
const IPC_SYSCTLS: &[&str] = &[
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
    "kernel.shm",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.msg",
];

/// Validates the security context of a container; `host_users` means that it uses the user namespace of the host.
pub(super) fn validate_container(
    context: &FieldView<'_>,
    host_users: bool,
    errors: &mut ErrorList,
) {
    if !context.exists() {
        return;
    }
    checks::id(&context.field("runAsUser"), errors);
    checks::id(&context.field("runAsGroup"), errors);
    let proc_mount = context.field("procMount");
    checks::optional_one_of(&proc_mount, &["Default", "Unmasked"], errors);
    if host_users && proc_mount.str() == "Unmasked" {
        let detail = "`hostUsers` must be false to use `Unmasked`";
        checks::invalid_text(&proc_mount, errors, detail);
    }
    seccomp_profile(&context.field("seccompProfile"), errors);
    privilege_escalation(context, errors);
    windows::validate_options(&context.field("windowsOptions"), errors);
    app_armor_profile(&context.field("appArmorProfile"), errors);
}

fn privilege_escalation(context: &FieldView<'_>, errors: &mut ErrorList) {
    if context.field("allowPrivilegeEscalation").opt_bool() != Some(false) {
        return;
    }
    if context.field("privileged").is_true() {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.push(Error::invalid(
            context.path(),
            security_context_bad_value(context),
            detail,
        ));
    }
    let capabilities = context.field("capabilities");
    let added = capabilities.field("add");
    if added.items().any(|added| added.str() == "CAP_SYS_ADMIN") {
        let detail =
            "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        errors.push(Error::invalid(
            context.path(),
            security_context_bad_value(context),
            detail,
        ));
    }
}

/// The fields of a security context with upstream's Go names, in its order, and the fields below them. String fields
/// (`SELINUX_STRING_FIELDS`) are rendered as empty if absent, all others as null.
const SELINUX_STRING_FIELDS: &[&str] = &["User", "Role", "Type", "Level"];
const SECURITY_CONTEXT_FIELDS: &[(&str, &[&str])] = &[
    ("Capabilities", &["Add", "Drop"]),
    ("Privileged", &[]),
    ("SELinuxOptions", SELINUX_STRING_FIELDS),
    (
        "WindowsOptions",
        &[
            "GMSACredentialSpecName",
            "GMSACredentialSpec",
            "RunAsUserName",
            "HostProcess",
        ],
    ),
    ("RunAsUser", &[]),
    ("RunAsGroup", &[]),
    ("RunAsNonRoot", &[]),
    ("ReadOnlyRootFilesystem", &[]),
    ("AllowPrivilegeEscalation", &[]),
    ("ProcMount", &[]),
    ("SeccompProfile", &["Type", "LocalhostProfile"]),
    ("AppArmorProfile", &["Type", "LocalhostProfile"]),
];

/// Renders a security context as upstream's errors do.
fn security_context_bad_value(context: &FieldView<'_>) -> BadValue {
    let parts = SECURITY_CONTEXT_FIELDS.iter().map(|&(inside, parts)| {
        let value = match context.get(&json_field_name(inside)) {
            Some(part @ Value::Object(_)) => render_go_struct(parts, |name| part.get(name)),
            value => value.map_or("null".to_owned(), Value::to_string),
        };
        format!("{inside:?}:{value}")
    });
    BadValue::Rendered(format!("{{{}}}", parts.collect::<Vec<_>>().join(",")))
}

fn render_go_struct<'a>(parts: &[&str], get: impl Fn(&str) -> Option<&'a Value>) -> String {
    let parts = parts.iter().map(|&inside| {
        let absent = if SELINUX_STRING_FIELDS.contains(&inside) {
            "\"\""
        } else {
            "null"
        };
        let value = get(&json_field_name(inside)).map_or(absent.to_owned(), Value::to_string);
        format!("{inside:?}:{value}")
    });
    format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
}

/// Converts a Go field name to its JSON name: `SELinuxOptions` to `seLinuxOptions`.
fn json_field_name(inside: &str) -> String {
    let capitals = match inside {
        "SELinuxOptions" => 2,
        name if name.starts_with("GMSA") => 4,
        _ => 1,
    };
    let (head, tail) = inside.split_at(capitals);
    format!("{}{tail}", head.to_ascii_lowercase())
}

/// Validates the security context of a pod.
pub(super) fn validate_pod(
    spec: &FieldView<'_>,
    options: &PodValidationOptions,
    errors: &mut ErrorList,
) {
    let context = spec.field("securityContext");
    let index = context.index();
    let context = context.with_index(&index);
    for id in ["fsGroup", "runAsUser", "runAsGroup"] {
        checks::id(&context.field(id), errors);
    }
    for group in context.field("supplementalGroups").items() {
        checks::id(&group, errors);
    }
    if spec.field("shareProcessNamespace").is_true() && spec.field("hostPID").is_true() {
        // Error paths are those of the field in upstream's internal pod type.
        let path = context.path().child("shareProcessNamespace");
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(Error::invalid(&path, true, detail));
    }
    sysctls(spec, &context.field("sysctls"), options, errors);
    let policies = ["Always", "OnRootMismatch"];
    checks::optional_one_of(&context.field("fsGroupChangePolicy"), &policies, errors);
    seccomp_profile(&context.field("seccompProfile"), errors);
    windows::validate_options(&context.field("windowsOptions"), errors);
    app_armor_profile(&context.field("appArmorProfile"), errors);
    let policies = ["Merge", "Strict"];
    checks::optional_one_of(
        &context.field("supplementalGroupsPolicy"),
        &policies,
        errors,
    );
    let policies: &[&str] = if options.allow_any_selinux_change_policy {
        &["MountOption", "Recursive"]
    } else {
        &["Recursive"]
    };
    checks::optional_one_of(&context.field("seLinuxChangePolicy"), policies, errors);
}

fn seccomp_profile(profile: &FieldView<'_>, errors: &mut ErrorList) {
    if !profile.exists() {
        return;
    }
    let kind = profile.field("type");
    if kind.is_empty() {
        kind.required(errors, "type is required when seccompProfile is set");
    } else {
        checks::one_of(&kind, PROFILE_TYPES, errors);
    }
    let local = profile.field("localhostProfile");
    match (kind.str() == "Localhost", local.exists()) {
        (true, false) => local.required(errors, "must be set when seccomp type is Localhost"),
        (true, true) => checks::local_descending_path(&local, errors),
        (false, true) => {
            let fields = [
                ("Type", "type", "\"\""),
                ("LocalhostProfile", "localhostProfile", "null"),
            ];
            let shown = BadValue::Rendered(checks::go_struct(profile, &fields));
            let detail = "can only be set when seccomp type is Localhost";
            errors.push(Error::invalid(local.path(), shown, detail));
        }
        (false, false) => {}
    }
}

pub(super) fn app_armor_profile(profile: &FieldView<'_>, errors: &mut ErrorList) {
    if !profile.exists() {
        return;
    }
    let (kind, local) = (profile.field("type"), profile.field("localhostProfile"));
    match kind.str() {
        "Localhost" => app_armor_file(&local, errors),
        "RuntimeDefault" | "Unconfined" => {
            if local.exists() {
                checks::invalid_text(
                    &local,
                    errors,
                    "can only be set when AppArmor type is Localhost",
                );
            }
        }
        "" => kind.required(errors, "type is required when appArmorProfile is set"),
        _ => checks::one_of(&kind, PROFILE_TYPES, errors),
    }
}

fn app_armor_file(file: &FieldView<'_>, errors: &mut ErrorList) {
    if file.str().trim() != file.str() {
        checks::invalid_text(file, errors, "must not be padded with whitespace");
    } else if file.is_empty() {
        file.required(errors, "must be set when AppArmor type is Localhost");
    }
    if file.len() > PROFILE_MAX_BYTES {
        errors.push(Error::too_long(file.path(), PROFILE_MAX_BYTES));
    }
}

fn sysctls(
    spec: &FieldView<'_>,
    sysctls: &FieldView<'_>,
    options: &PodValidationOptions,
    errors: &mut ErrorList,
) {
    let mut names = SmallSet::new();
    for sysctl in sysctls.items() {
        let name = sysctl.field("name");
        let is_new = names.insert(sysctl.text("name"));
        if name.is_empty() {
            name.required(errors, "");
        } else if !is_sysctl(name.str()) {
            checks::invalid_text(&name, errors, SYSCTL_NAME);
        } else if !is_new {
            errors.push(Error::duplicate(name.path(), name.str()));
        }
        if options.allow_host_sysctls {
            continue;
        }
        if let Some(namespace) = shared_host_namespace(spec, name.str()) {
            let detail = format!("may not be specified when '{namespace}' is true");
            checks::invalid_text(&name, errors, detail);
        }
    }
}

/// Returns the namespace of a sysctl, if the pod shares it with the host.
pub(super) fn shared_host_namespace(spec: &FieldView<'_>, sysctl: &str) -> Option<&'static str> {
    let name = normalize_sysctl(sysctl);
    let name = name.split('*').next().unwrap_or_default();
    let namespace = if IPC_SYSCTLS.contains(&name) || name.starts_with("fs.mqueue.") {
        "hostIPC"
    } else if name.starts_with("net.") {
        "hostNetwork"
    } else {
        return None;
    };
    spec.field(namespace).is_true().then_some(namespace)
}

/// Swaps slashes and dots in a name whose first separator is a slash.
fn normalize_sysctl(sysctl: &str) -> String {
    match sysctl.find(['.', '/']) {
        Some(first) if sysctl[first..].starts_with('/') => {
            let swap = |c| match c {
                '.' => '/',
                '/' => '.',
                other => other,
            };
            sysctl.chars().map(swap).collect()
        }
        _ => sysctl.to_owned(),
    }
}

fn is_sysctl(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_segment = |segment: &str| {
        let bytes = segment.as_bytes();
        bytes.first().is_some_and(|&byte| is_word(byte))
            && bytes.last().is_some_and(|&byte| is_word(byte))
            && bytes
                .iter()
                .all(|&byte| is_word(byte) || b"-_".contains(&byte))
    };
    name.len() <= SYSCTL_MAX_BYTES && name.split(['.', '/']).all(is_segment)
}
