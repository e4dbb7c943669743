//! Validation of probes, lifecycle hooks and stop signals of containers.

use rhumb_meta::field::ErrorList;

use super::checks;
use crate::FieldView;

/// Pod fields that the validation of probe and lifecycle handlers needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct HandlerValidationContext<'a> {
    pub(super) grace_seconds: Option<i64>,
    /// Name of the operating system, if set.
    pub(super) os: Option<&'a str>,
}

const SIGNALS: &[&str] = &[
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMAX-1",
    "SIGRTMAX-10",
    "SIGRTMAX-11",
    "SIGRTMAX-12",
    "SIGRTMAX-13",
    "SIGRTMAX-14",
    "SIGRTMAX-2",
    "SIGRTMAX-3",
    "SIGRTMAX-4",
    "SIGRTMAX-5",
    "SIGRTMAX-6",
    "SIGRTMAX-7",
    "SIGRTMAX-8",
    "SIGRTMAX-9",
    "SIGRTMIN",
    "SIGRTMIN+1",
    "SIGRTMIN+10",
    "SIGRTMIN+11",
    "SIGRTMIN+12",
    "SIGRTMIN+13",
    "SIGRTMIN+14",
    "SIGRTMIN+15",
    "SIGRTMIN+2",
    "SIGRTMIN+3",
    "SIGRTMIN+4",
    "SIGRTMIN+5",
    "SIGRTMIN+6",
    "SIGRTMIN+7",
    "SIGRTMIN+8",
    "SIGRTMIN+9",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];

/// Validates the lifecycle and all probes of a container.
pub(super) fn validate(
    container: &FieldView<'_>,
    context: HandlerValidationContext<'_>,
    errors: &mut ErrorList,
) {
    let lifecycle = container.field("lifecycle");
    for hook in ["postStart", "preStop"] {
        let hook = lifecycle.field(hook);
        if hook.exists() {
            let kinds = ["exec", "httpGet", "tcpSocket", "sleep"];
            handler(&hook, &kinds, context, errors);
        }
    }
    let signal = lifecycle.field("stopSignal");
    if signal.exists() {
        stop_signal(&signal, context.os, errors);
    }
    let liveness = container.field("livenessProbe");
    probe(&liveness, context, errors);
    one_success(&liveness, errors);
    let readiness = container.field("readinessProbe");
    probe(&readiness, context, errors);
    let grace = readiness.field("terminationGracePeriodSeconds");
    if grace.exists() {
        grace.invalid(errors, "must not be set for readinessProbes");
    }
    let startup = container.field("startupProbe");
    probe(&startup, context, errors);
    one_success(&startup, errors);
}

fn one_success(probe: &FieldView<'_>, errors: &mut ErrorList) {
    if probe.exists() && probe.number("successThreshold") != 1 {
        checks::invalid_number(&probe.field("successThreshold"), errors, "must be 1");
    }
}

fn probe(probe: &FieldView<'_>, context: HandlerValidationContext<'_>, errors: &mut ErrorList) {
    if !probe.exists() {
        return;
    }
    let kinds = ["exec", "httpGet", "tcpSocket", "grpc"];
    handler(probe, &kinds, context, errors);
    for number in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        checks::non_negative(&probe.field(number), errors);
    }
    let grace = probe.field("terminationGracePeriodSeconds");
    if grace.int().is_some_and(|seconds| seconds <= 0) {
        checks::invalid_number(&grace, errors, "must be greater than 0");
    }
}

/// Requires exactly one of these handlers.
fn handler(
    owner: &FieldView<'_>,
    kinds: &[&str],
    context: HandlerValidationContext<'_>,
    errors: &mut ErrorList,
) {
    let mut has_handler = false;
    for kind in kinds {
        let handler = owner.field(kind);
        if !handler.exists() {
            continue;
        }
        if has_handler {
            handler.forbidden(errors, "may not specify more than 1 handler type");
            continue;
        }
        has_handler = true;
        match *kind {
            "exec" => checks::required(&handler.field("command"), errors),
            "httpGet" => http_get(&handler, errors),
            "tcpSocket" => checks::port(&handler.field("port"), errors),
            "grpc" => checks::port_number(&handler.field("port"), errors),
            _ => sleep(&handler, context.grace_seconds, errors),
        }
    }
    if !has_handler {
        owner.required(errors, "must specify a handler type");
    }
}

fn http_get(action: &FieldView<'_>, errors: &mut ErrorList) {
    checks::required(&action.field("path"), errors);
    checks::port(&action.field("port"), errors);
    checks::one_of(&action.field("scheme"), &["HTTP", "HTTPS"], errors);
    let headers = action.field("httpHeaders");
    for header in headers.items() {
        checks::header_name(headers.path(), header.text("name"), errors);
    }
}

fn sleep(action: &FieldView<'_>, grace_seconds: Option<i64>, errors: &mut ErrorList) {
    let seconds = action.number("seconds");
    if let Some(grace) = grace_seconds
        && (seconds < 0 || seconds > grace)
    {
        let detail =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.push(rhumb_meta::field::Error::invalid(
            action.path(),
            seconds,
            detail,
        ));
    }
}

fn stop_signal(signal: &FieldView<'_>, os: Option<&str>, errors: &mut ErrorList) {
    match os {
        None => signal.forbidden(
            errors,
            "may not be set for containers with empty `spec.os.name`",
        ),
        Some("windows") => checks::one_of(signal, &["SIGKILL", "SIGTERM"], errors),
        Some("linux") => checks::one_of(signal, SIGNALS, errors),
        Some(_) => {}
    }
}
