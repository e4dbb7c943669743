//! Validation of `spec.os`, Windows security options and host process containers.

use rhumb_meta::field::{Error, ErrorList};

use super::{checks, for_each_container};
use crate::FieldView;

const CREDENTIAL_SPEC_MAX_BYTES: usize = 64 * 1024;
const DOMAIN_MAX_BYTES: usize = 256;
const USER_MAX_BYTES: usize = 104;
const FORBIDDEN: &str = "cannot be set for a windows pod";

/// Fields of a pod security context that are forbidden on Windows.
const POD_FIELDS: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
];

/// Fields of a container security context that are forbidden on Windows.
const CONTAINER_FIELDS: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

/// Validates `spec.os`, and rejects fields that the operating system does not support.
pub(super) fn validate_os(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let os = spec.field("os");
    if !os.exists() {
        return;
    }
    match os.text("name") {
        "" => os.field("name").required(errors, ""),
        "linux" => validate_linux(spec, errors),
        "windows" => validate_windows(spec, errors),
        other => errors.push(Error::not_supported(
            os.path(),
            other,
            &["linux", "windows"],
        )),
    }
}

fn validate_linux(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let detail = "windows options cannot be set for a linux pod";
    let context = spec.field("securityContext");
    if context.has("windowsOptions") {
        context.field("windowsOptions").forbidden(errors, detail);
    }
    for_each_container(spec, |container| {
        let context = container.field("securityContext");
        if context.has("windowsOptions") {
            context.field("windowsOptions").forbidden(errors, detail);
        }
    });
}

fn validate_windows(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let context = spec.field("securityContext");
    for name in POD_FIELDS {
        let field = context.field(name);
        if field.exists() && !(*name == "sysctls" && field.is_empty()) {
            field.forbidden(errors, FORBIDDEN);
        }
    }
    for name in ["hostUsers", "shareProcessNamespace"] {
        if spec.has(name) {
            spec.field(name).forbidden(errors, FORBIDDEN);
        }
    }
    for name in ["hostPID", "hostIPC"] {
        if spec.field(name).is_true() {
            spec.field(name).forbidden(errors, FORBIDDEN);
        }
    }
    for_each_container(spec, |container| {
        let context = container.field("securityContext");
        for name in CONTAINER_FIELDS {
            if context.has(name) {
                context.field(name).forbidden(errors, FORBIDDEN);
            }
        }
    });
}

/// Requires all or none of the containers to be host process containers.
pub(super) fn validate_host_processes(spec: &FieldView<'_>, errors: &mut ErrorList) {
    let context = spec.field("securityContext");
    let options = context.field("windowsOptions");
    let of_pod = options.field("hostProcess").opt_bool();
    let (mut containers, mut host_processes) = (0_usize, 0_usize);
    for_each_container(spec, |container| {
        containers += 1;
        let context = container.field("securityContext");
        let options = context.field("windowsOptions");
        let own = options.field("hostProcess");
        if let (Some(of_pod), Some(of_container)) = (of_pod, own.opt_bool())
            && of_pod != of_container
        {
            let detail = format!(
                "pod hostProcess value must be identical if both are specified, was {of_pod}"
            );
            errors.push(Error::invalid(own.path(), of_container, detail));
        }
        if own.opt_bool().or(of_pod) == Some(true) {
            host_processes += 1;
        }
    });
    if host_processes == 0 {
        return;
    }
    if host_processes != containers {
        let detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.push(Error::invalid(spec.path(), "", detail));
    }
    let network = spec.field("hostNetwork");
    if !network.is_true() {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.push(Error::invalid(network.path(), false, detail));
    }
}

pub(super) fn validate_options(options: &FieldView<'_>, errors: &mut ErrorList) {
    let name = options.field("gmsaCredentialSpecName");
    if name.exists() {
        checks::dns_subdomain(&name, errors);
    }
    let spec = options.field("gmsaCredentialSpec");
    if spec.exists() && spec.is_empty() {
        spec.invalid(errors, "gmsaCredentialSpec cannot be an empty string");
    } else if spec.len() > CREDENTIAL_SPEC_MAX_BYTES {
        spec.invalid(errors, "gmsaCredentialSpec size must be under 64 KiB");
    }
    let user = options.field("runAsUserName");
    if user.exists() {
        user_name(&user, errors);
    }
}

/// Validates `user` or `domain\user`.
fn user_name(view: &FieldView<'_>, errors: &mut ErrorList) {
    let name = view.str();
    let refused = if name.is_empty() {
        "runAsUserName cannot be an empty string"
    } else if name.bytes().any(|byte| byte.is_ascii_control()) {
        "runAsUserName cannot contain control characters"
    } else if name.matches('\\').count() > 1 {
        "runAsUserName cannot contain more than one backslash"
    } else {
        return domain_and_user(view, errors);
    };
    view.invalid(errors, refused);
}

fn domain_and_user(view: &FieldView<'_>, errors: &mut ErrorList) {
    let (domain, user) = match view.str().split_once('\\') {
        Some((domain, user)) => (Some(domain), user),
        None => (None, view.str()),
    };
    let mut refuse = |is_wrong: bool, detail: &str| {
        if is_wrong {
            view.invalid(errors, detail);
        }
    };
    refuse(
        domain.is_some_and(|domain| domain.len() >= DOMAIN_MAX_BYTES),
        "runAsUserName's Domain length must be under 256 characters",
    );
    refuse(
        domain.is_some_and(|domain| !is_net_bios(domain) && !is_dns_domain(domain)),
        "runAsUserName's Domain doesn't match the NetBios nor the DNS format",
    );
    refuse(user.is_empty(), "runAsUserName's User cannot be empty");
    refuse(
        user.len() > USER_MAX_BYTES,
        "runAsUserName's User length must not be longer than 104 characters",
    );
    refuse(
        !user.is_empty() && user.bytes().all(|byte| b". ".contains(&byte)),
        "runAsUserName's User cannot contain only periods or spaces",
    );
    refuse(
        user.contains(|c| "\"/\\:;|=,+*?<>@[]".contains(c)),
        "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]",
    );
}

fn is_net_bios(domain: &str) -> bool {
    (1..=15).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(|c| "\\/:*?\"<>|".contains(c))
}

fn is_dns_domain(domain: &str) -> bool {
    domain.split('.').all(|label| {
        let bytes = label.as_bytes();
        label.len() <= 63
            && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
            && bytes
                .iter()
                .all(|&byte| byte.is_ascii_alphanumeric() || byte == b'-')
    })
}
