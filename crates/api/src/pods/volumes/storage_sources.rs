//! Validation of volume sources backed by storage systems: cloud disks, network file systems, claims, FlexVolume, CSI.

use rhumb_meta::field::{Error, ErrorList};
use rhumb_meta::validation;

use super::VolumeValidationContext;
use crate::FieldView;
use crate::pods::checks;
use crate::selectors::push_problems;

const LUN_RANGE: &str = "must be between 0 and 255, inclusive";
const PARTITION_RANGE: &str = "must be between 1 and 255, inclusive";
const HOST_PORT_PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
const DRIVER_NAME_MAX_BYTES: usize = 63;
const QUOBYTE_TENANT_MAX_BYTES: usize = 64;

pub(super) fn gce(source: &FieldView<'_>, _: &VolumeValidationContext<'_>, errors: &mut ErrorList) {
    checks::required(&source.field("pdName"), errors);
    partition(source, errors);
}

pub(super) fn aws(source: &FieldView<'_>, _: &VolumeValidationContext<'_>, errors: &mut ErrorList) {
    checks::required(&source.field("volumeID"), errors);
    partition(source, errors);
}

fn partition(source: &FieldView<'_>, errors: &mut ErrorList) {
    if !(0..=255).contains(&source.number("partition")) {
        checks::invalid_number(&source.field("partition"), errors, PARTITION_RANGE);
    }
}

pub(super) fn nfs(source: &FieldView<'_>, _: &VolumeValidationContext<'_>, errors: &mut ErrorList) {
    checks::required(&source.field("server"), errors);
    checks::required(&source.field("path"), errors);
    if !source.text("path").starts_with('/') {
        checks::invalid_text(&source.field("path"), errors, "must be an absolute path");
    }
}

pub(super) fn iscsi(
    source: &FieldView<'_>,
    _: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    checks::required(&source.field("targetPortal"), errors);
    let iqn = source.field("iqn");
    if iqn.is_empty() {
        iqn.required(errors, "");
    } else {
        iscsi_name(&iqn, errors);
    }
    lun(source, errors);
    let authenticates =
        source.field("chapAuthDiscovery").is_true() || source.field("chapAuthSession").is_true();
    if authenticates && !source.has("secretRef") {
        source.field("secretRef").required(errors, "");
    }
    if source.has("initiatorName") {
        let path = source.path().child("initiatorname");
        iscsi_name(&FieldView::at(source.get("initiatorName"), path), errors);
    }
}

fn lun(source: &FieldView<'_>, errors: &mut ErrorList) {
    if !(0..=255).contains(&source.number("lun")) {
        checks::invalid_number(&source.field("lun"), errors, LUN_RANGE);
    }
}

fn iscsi_name(view: &FieldView<'_>, errors: &mut ErrorList) {
    let name = view.str();
    let is_valid = if name.starts_with("iqn") {
        is_iqn(name)
    } else if name.starts_with("eui") {
        has_alphanumerics(name, 16)
    } else if name.starts_with("naa") {
        has_alphanumerics(name, 32)
    } else {
        let detail = "must be valid format starting with iqn, eui, or naa";
        checks::invalid_text(view, errors, detail);
        return;
    };
    if !is_valid {
        checks::invalid_text(view, errors, "must be valid format");
    }
}

/// Matches `iqn.`, year and month, domain, colon and name.
fn is_iqn(name: &str) -> bool {
    name.match_indices("iqn.").any(|(start, _)| {
        let Some((date, rest)) = name[start + 4..].split_at_checked(8) else {
            return false;
        };
        let has_date = date.bytes().enumerate().all(|(at, byte)| match at {
            4 => byte == b'-',
            7 => byte == b'.',
            _ => byte.is_ascii_digit(),
        });
        let Some((domain, unique)) = rest.split_once(':') else {
            return false;
        };
        let is_domain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        let is_refused = |c: char| ",;*&$|\t\n\x0c\r ".contains(c);
        has_date
            && !domain.is_empty()
            && domain.chars().all(is_domain)
            && !unique.is_empty()
            && !unique.contains(is_refused)
    })
}

/// Matches a three-letter prefix, any character, and `count` alphanumeric characters.
fn has_alphanumerics(name: &str, count: usize) -> bool {
    let mut rest = name.chars().skip(3);
    rest.next().is_some()
        && rest.clone().count() == count
        && rest.all(|c| c.is_ascii_alphanumeric())
}

pub(super) fn glusterfs(
    source: &FieldView<'_>,
    _: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    checks::required(&source.field("endpoints"), errors);
    checks::required(&source.field("path"), errors);
}

pub(super) fn flocker(
    source: &FieldView<'_>,
    _: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    let (name, uuid) = (source.text("datasetName"), source.text("datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        source.required(errors, "one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !uuid.is_empty() {
        let detail = "datasetName and datasetUUID can not be specified simultaneously";
        errors.push(Error::invalid(source.path(), "resource", detail));
    }
    if name.contains('/') {
        checks::invalid_text(&source.field("datasetName"), errors, "must not contain '/'");
    }
}

pub(super) fn claim(
    source: &FieldView<'_>,
    _: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    checks::required(&source.field("claimName"), errors);
}

pub(super) fn rbd(source: &FieldView<'_>, _: &VolumeValidationContext<'_>, errors: &mut ErrorList) {
    checks::required(&source.field("monitors"), errors);
    checks::required(&source.field("image"), errors);
}

pub(super) fn cinder(
    source: &FieldView<'_>,
    _: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    checks::required(&source.field("volumeID"), errors);
    secret_name(source, errors);
}

/// Requires a name in a secret reference that is set.
fn secret_name(source: &FieldView<'_>, errors: &mut ErrorList) {
    let secret = source.field("secretRef");
    if secret.exists() {
        checks::required(&secret.field("name"), errors);
    }
}

pub(super) fn cephfs(
    source: &FieldView<'_>,
    _: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    checks::required(&source.field("monitors"), errors);
}

pub(super) fn quobyte(
    source: &FieldView<'_>,
    _: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    let registry = source.field("registry");
    if registry.is_empty() {
        registry.required(errors, HOST_PORT_PAIRS);
    } else if source.text("tenant").len() > QUOBYTE_TENANT_MAX_BYTES {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        source.field("tenant").required(errors, detail);
    } else {
        for pair in registry.str().split(',') {
            if !is_host_port(pair) {
                checks::invalid_text(&registry, errors, HOST_PORT_PAIRS);
            }
        }
    }
    checks::required(&source.field("volume"), errors);
}

/// Matches `host:port`; an IPv6 address is in brackets.
fn is_host_port(pair: &str) -> bool {
    match pair.strip_prefix('[') {
        Some(rest) => rest.split_once("]:").is_some_and(|(host, port)| {
            !host.contains(['[', ']']) && !port.contains([':', '[', ']'])
        }),
        None => pair.split_once(':').is_some_and(|(host, port)| {
            !port.contains(':') && !host.contains(['[', ']']) && !port.contains(['[', ']'])
        }),
    }
}

pub(super) fn fc(source: &FieldView<'_>, _: &VolumeValidationContext<'_>, errors: &mut ErrorList) {
    let (targets, ids) = (source.field("targetWWNs"), source.field("wwids"));
    if targets.is_empty() && ids.is_empty() {
        targets.required(
            errors,
            "must specify either targetWWNs or wwids, but not both",
        );
    }
    if targets.is_empty() {
        return;
    }
    if !ids.is_empty() {
        targets.invalid(
            errors,
            "targetWWNs and wwids can not be specified simultaneously",
        );
    }
    if source.has("lun") {
        lun(source, errors);
    } else {
        let detail = "lun is required if targetWWNs is specified";
        source.field("lun").required(errors, detail);
    }
}

pub(super) fn flex(
    source: &FieldView<'_>,
    _: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    checks::required(&source.field("driver"), errors);
    for (key, option) in source.field("options").entries() {
        let domain = key.split_once('/').map_or(key, |(domain, _)| domain);
        let domain = format!(".{}", domain.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(Error::invalid(option.path(), key, detail));
        }
    }
}

pub(super) fn azure_file(
    source: &FieldView<'_>,
    _: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    checks::required(&source.field("secretName"), errors);
    checks::required(&source.field("shareName"), errors);
}

pub(super) fn vsphere(
    source: &FieldView<'_>,
    _: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    checks::required(&source.field("volumePath"), errors);
}

pub(super) fn photon(
    source: &FieldView<'_>,
    _: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    checks::required(&source.field("pdID"), errors);
}

pub(super) fn portworx(
    source: &FieldView<'_>,
    _: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    checks::required(&source.field("volumeID"), errors);
}

pub(super) fn azure_disk(
    source: &FieldView<'_>,
    _: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    checks::required(&source.field("diskName"), errors);
    let uri = source.field("diskURI");
    checks::required(&uri, errors);
    let caching = ["None", "ReadOnly", "ReadWrite"];
    checks::optional_one_of(&source.field("cachingMode"), &caching, errors);
    let kind = source.field("kind");
    checks::optional_one_of(&kind, &["Dedicated", "Managed", "Shared"], errors);
    if !kind.exists() {
        return;
    }
    let (prefix, supported) = if kind.str() == "Managed" {
        (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        )
    } else {
        (
            "https://",
            "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd",
        )
    };
    if !uri.str().starts_with(prefix) {
        errors.push(Error::not_supported(uri.path(), uri.str(), &[supported]));
    }
}

pub(super) fn storage_os(
    source: &FieldView<'_>,
    _: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    checks::required_dns_label(&source.field("volumeName"), errors);
    if !source.text("volumeNamespace").is_empty() {
        checks::dns_label(&source.field("volumeNamespace"), errors);
    }
    secret_name(source, errors);
}

pub(super) fn scale_io(
    source: &FieldView<'_>,
    _: &VolumeValidationContext<'_>,
    errors: &mut ErrorList,
) {
    checks::required(&source.field("gateway"), errors);
    checks::required(&source.field("system"), errors);
    checks::required(&source.field("volumeName"), errors);
}

pub(super) fn csi(source: &FieldView<'_>, _: &VolumeValidationContext<'_>, errors: &mut ErrorList) {
    csi_driver_name(&source.field("driver"), errors);
    let secret = source.field("nodePublishSecretRef");
    if !secret.exists() {
        return;
    }
    let name = secret.text("name");
    if name.is_empty() {
        secret.field("name").required(errors, "");
    } else {
        // As upstream, errors are reported at the volume name.
        let path = source.path().child("name");
        push_problems(errors, &path, name, validation::dns1123_subdomain(name));
    }
}

fn csi_driver_name(view: &FieldView<'_>, errors: &mut ErrorList) {
    let name = view.str();
    if name.is_empty() {
        view.required(errors, "");
        return;
    }
    if name.len() > DRIVER_NAME_MAX_BYTES {
        errors.push(Error::too_long(view.path(), DRIVER_NAME_MAX_BYTES));
    }
    let problems = validation::dns1123_subdomain(&name.to_lowercase());
    push_problems(errors, view.path(), name, problems);
}
