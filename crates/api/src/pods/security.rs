//! What pods and containers may do on their node.

use rhumb_meta::field::{BadValue, Error, ErrorList};
use serde_json::Value;

use super::{Options, checks, windows};
use crate::View;
use crate::small::SmallSet;

const PROFILE_TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];
const PROFILE_MAX_BYTES: usize = 4095;
const SYSCTL_MAX_BYTES: usize = 253;
const SYSCTL_NAME: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// Sysctls of the namespace in which processes talk to each other.
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

/// Checks the security context of a container; `host_users` says that its users are the host's.
pub(super) fn validate_container(context: &View<'_>, host_users: bool, errors: &mut ErrorList) {
    if !context.exists() {
        return;
    }
    checks::id(&context.field("runAsUser"), errors);
    checks::id(&context.field("runAsGroup"), errors);
    let proc_mount = context.field("procMount");
    checks::optional_one_of(&proc_mount, &["Default", "Unmasked"], errors);
    if host_users && proc_mount.str() == "Unmasked" {
        let detail = "`hostUsers` must be false to use `Unmasked`";
        checks::bad_text(&proc_mount, errors, detail);
    }
    seccomp_profile(&context.field("seccompProfile"), errors);
    privilege_escalation(context, errors);
    windows::validate_options(&context.field("windowsOptions"), errors);
    app_armor_profile(&context.field("appArmorProfile"), errors);
}

fn privilege_escalation(context: &View<'_>, errors: &mut ErrorList) {
    if context.field("allowPrivilegeEscalation").opt_bool() != Some(false) {
        return;
    }
    if context.field("privileged").is_true() {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        errors.push(Error::invalid(context.path(), shown(context), detail));
    }
    let capabilities = context.field("capabilities");
    let added = capabilities.field("add");
    if added.items().any(|added| added.str() == "CAP_SYS_ADMIN") {
        let detail =
            "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        errors.push(Error::invalid(context.path(), shown(context), detail));
    }
}

/// The parts of a security context in the order and under the names that upstream has inside, and which of them
/// have parts. Those of the first kind are empty text where they are absent, all others null.
const TEXTS: &[&str] = &["User", "Role", "Type", "Level"];
const CONTEXT: &[(&str, &[&str])] = &[
    ("Capabilities", &["Add", "Drop"]),
    ("Privileged", &[]),
    ("SELinuxOptions", TEXTS),
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

/// A security context as errors of upstream show it.
fn shown(context: &View<'_>) -> BadValue {
    let parts = CONTEXT.iter().map(|&(inside, parts)| {
        let value = match context.get(&outside(inside)) {
            Some(part @ Value::Object(_)) => object_shown(parts, |name| part.get(name)),
            value => value.map_or("null".to_owned(), Value::to_string),
        };
        format!("{inside:?}:{value}")
    });
    BadValue::Rendered(format!("{{{}}}", parts.collect::<Vec<_>>().join(",")))
}

fn object_shown<'a>(parts: &[&str], get: impl Fn(&str) -> Option<&'a Value>) -> String {
    let parts = parts.iter().map(|&inside| {
        let absent = if TEXTS.contains(&inside) {
            "\"\""
        } else {
            "null"
        };
        let value = get(&outside(inside)).map_or(absent.to_owned(), Value::to_string);
        format!("{inside:?}:{value}")
    });
    format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
}

/// The name that clients know: `SELinuxOptions` is `seLinuxOptions` to them.
fn outside(inside: &str) -> String {
    let capitals = match inside {
        "SELinuxOptions" => 2,
        name if name.starts_with("GMSA") => 4,
        _ => 1,
    };
    let (head, tail) = inside.split_at(capitals);
    format!("{}{tail}", head.to_ascii_lowercase())
}

/// Checks the security context of a pod.
pub(super) fn validate_pod(spec: &View<'_>, options: &Options, errors: &mut ErrorList) {
    let context = spec.field("securityContext");
    let index = context.index();
    let context = context.with(&index);
    for id in ["fsGroup", "runAsUser", "runAsGroup"] {
        checks::id(&context.field(id), errors);
    }
    for group in context.field("supplementalGroups").items() {
        checks::id(&group, errors);
    }
    if spec.field("shareProcessNamespace").is_true() && spec.field("hostPID").is_true() {
        // Errors have the place that the field has in upstream's own form of a pod.
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

fn seccomp_profile(profile: &View<'_>, errors: &mut ErrorList) {
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
        (true, true) => checks::descending_path(&local, errors),
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

pub(super) fn app_armor_profile(profile: &View<'_>, errors: &mut ErrorList) {
    if !profile.exists() {
        return;
    }
    let (kind, local) = (profile.field("type"), profile.field("localhostProfile"));
    match kind.str() {
        "Localhost" => app_armor_file(&local, errors),
        "RuntimeDefault" | "Unconfined" => {
            if local.exists() {
                checks::bad_text(
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

fn app_armor_file(file: &View<'_>, errors: &mut ErrorList) {
    if file.str().trim() != file.str() {
        checks::bad_text(file, errors, "must not be padded with whitespace");
    } else if file.is_empty() {
        file.required(errors, "must be set when AppArmor type is Localhost");
    }
    if file.len() > PROFILE_MAX_BYTES {
        errors.push(Error::too_long(file.path(), PROFILE_MAX_BYTES));
    }
}

fn sysctls(spec: &View<'_>, sysctls: &View<'_>, options: &Options, errors: &mut ErrorList) {
    let mut names = SmallSet::new();
    for sysctl in sysctls.items() {
        let name = sysctl.field("name");
        let is_new = names.insert(sysctl.text("name"));
        if name.is_empty() {
            name.required(errors, "");
        } else if !is_sysctl(name.str()) {
            checks::bad_text(&name, errors, SYSCTL_NAME);
        } else if !is_new {
            errors.push(Error::duplicate(name.path(), name.str()));
        }
        if options.allow_host_sysctls {
            continue;
        }
        if let Some(namespace) = host_namespace(spec, name.str()) {
            let detail = format!("may not be specified when '{namespace}' is true");
            checks::bad_text(&name, errors, detail);
        }
    }
}

/// The namespace of a sysctl, if the pod shares that of its host.
pub(super) fn host_namespace(spec: &View<'_>, sysctl: &str) -> Option<&'static str> {
    let name = with_dots(sysctl);
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

/// A name whose first separator is a slash has slashes for dots and dots for slashes.
fn with_dots(sysctl: &str) -> String {
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
