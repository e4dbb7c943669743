//! The path and query parameters of operations.

use std::borrow::Cow;

use crate::operation::{Parameter, ParameterLocation};

const fn query(name: &'static str, kind: &'static str, description: &'static str) -> Parameter {
    Parameter {
        name,
        location: ParameterLocation::Query,
        kind,
        description: Cow::Borrowed(description),
    }
}

const fn path(name: &'static str, description: &'static str) -> Parameter {
    Parameter {
        name,
        location: ParameterLocation::Path,
        kind: STRING,
        description: Cow::Borrowed(description),
    }
}

const STRING: &str = "string";
const INTEGER: &str = "integer";
const BOOLEAN: &str = "boolean";

pub(crate) const PRETTY: Parameter =
    query("pretty", STRING, "If \"true\", the response is indented.");
pub(crate) const NAMESPACE: Parameter = path("namespace", "The namespace of the object.");
pub(crate) const PATH: Parameter = path("path", "The path below the proxied resource.");

const CONTINUE: Parameter = query(
    "continue",
    STRING,
    "The continue token of the previous page of a list.",
);
const DRY_RUN: Parameter = query(
    "dryRun",
    STRING,
    "If \"All\", the request is processed but nothing is persisted.",
);
const FIELD_SELECTOR: Parameter = query(
    "fieldSelector",
    STRING,
    "Restricts the objects by their fields.",
);
const LABEL_SELECTOR: Parameter = query(
    "labelSelector",
    STRING,
    "Restricts the objects by their labels.",
);
const LIMIT: Parameter = query(
    "limit",
    INTEGER,
    "The maximum number of objects in a page of a list.",
);
const RESOURCE_VERSION: Parameter = query(
    "resourceVersion",
    STRING,
    "The resource version that the response must be based on.",
);
const RESOURCE_VERSION_MATCH: Parameter = query(
    "resourceVersionMatch",
    STRING,
    "How resourceVersion applies to a list: \"Exact\" or \"NotOlderThan\".",
);
const SEND_INITIAL_EVENTS: Parameter = query(
    "sendInitialEvents",
    BOOLEAN,
    "Whether a watch begins with events for all existing objects, followed by a bookmark.",
);
const SHARD_SELECTOR: Parameter =
    query("shardSelector", STRING, "Restricts the objects to a shard.");
const TIMEOUT_SECONDS: Parameter =
    query("timeoutSeconds", INTEGER, "The timeout of a list or watch.");

pub(crate) const LIST: &[Parameter] = &[
    query(
        "allowWatchBookmarks",
        BOOLEAN,
        "Whether a watch may send bookmark events.",
    ),
    CONTINUE,
    FIELD_SELECTOR,
    LABEL_SELECTOR,
    LIMIT,
    RESOURCE_VERSION,
    RESOURCE_VERSION_MATCH,
    SEND_INITIAL_EVENTS,
    SHARD_SELECTOR,
    TIMEOUT_SECONDS,
    query(
        "watch",
        BOOLEAN,
        "Whether to stream changes instead of returning a list.",
    ),
];

pub(crate) const WRITE: &[Parameter] = &[
    DRY_RUN,
    query(
        "fieldManager",
        STRING,
        "The field manager recorded for the fields that this request sets.",
    ),
    query(
        "fieldValidation",
        STRING,
        "How unknown and duplicate fields are handled: \"Ignore\", \"Warn\" or \"Strict\".",
    ),
];

pub(crate) const FORCE: Parameter = query(
    "force",
    BOOLEAN,
    "Whether an apply takes over fields of other managers on conflict.",
);

pub(crate) const DELETE: &[Parameter] = &[
    DRY_RUN,
    query(
        "gracePeriodSeconds",
        INTEGER,
        "The grace period before the object is deleted; zero deletes immediately.",
    ),
    query(
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        BOOLEAN,
        "Whether to delete the object even if it cannot be read from the store. Finalizers and dependents are ignored.",
    ),
    query(
        "orphanDependents",
        BOOLEAN,
        "Deprecated: use propagationPolicy.",
    ),
    query(
        "propagationPolicy",
        STRING,
        "How dependents are handled: \"Orphan\", \"Background\" or \"Foreground\".",
    ),
];

/// In addition to `DELETE`.
pub(crate) const DELETE_COLLECTION: &[Parameter] = &[
    CONTINUE,
    FIELD_SELECTOR,
    LABEL_SELECTOR,
    LIMIT,
    RESOURCE_VERSION,
    RESOURCE_VERSION_MATCH,
    SEND_INITIAL_EVENTS,
    SHARD_SELECTOR,
    TIMEOUT_SECONDS,
];

pub(crate) const LOG: &[Parameter] = &[
    query(
        "container",
        STRING,
        "The container whose log is returned; optional if there is only one.",
    ),
    query(
        "follow",
        BOOLEAN,
        "Whether to stream the log as it is written.",
    ),
    query(
        "insecureSkipTLSVerifyBackend",
        BOOLEAN,
        "Whether to skip verification of the node's certificate.",
    ),
    query("limitBytes", INTEGER, "The maximum number of bytes."),
    query(
        "previous",
        BOOLEAN,
        "Whether to return the log of the previous container instance.",
    ),
    query(
        "sinceSeconds",
        INTEGER,
        "Only lines written in the last so many seconds.",
    ),
    query("stream", STRING, "\"All\", \"Stdout\" or \"Stderr\"."),
    query(
        "tailLines",
        INTEGER,
        "The number of lines from the end of the log.",
    ),
    query(
        "timestamps",
        BOOLEAN,
        "Whether to prefix every line with its timestamp.",
    ),
];

const CONTAINER: Parameter = query(
    "container",
    STRING,
    "The container; optional if there is only one.",
);
const STDERR: Parameter = query("stderr", BOOLEAN, "Whether to return standard error.");
const STDIN: Parameter = query("stdin", BOOLEAN, "Whether to attach standard input.");
const STDOUT: Parameter = query("stdout", BOOLEAN, "Whether to return standard output.");
const TTY: Parameter = query("tty", BOOLEAN, "Whether to allocate a terminal.");

const ATTACH: &[Parameter] = &[CONTAINER, STDERR, STDIN, STDOUT, TTY];
const EXEC: &[Parameter] = &[
    query(
        "command",
        STRING,
        "The command; repeated for each argument.",
    ),
    CONTAINER,
    STDERR,
    STDIN,
    STDOUT,
    TTY,
];
const PORT_FORWARD: &[Parameter] = &[query("ports", INTEGER, "The ports of the pod.")];
const PROXY: &[Parameter] = &[query("path", STRING, "The path of the proxied request.")];

/// The parameters of a CONNECT subresource.
pub(crate) fn connect_parameters(subresource: &str) -> &'static [Parameter] {
    match subresource {
        "attach" => ATTACH,
        "exec" => EXEC,
        "portforward" => PORT_FORWARD,
        "proxy" => PROXY,
        _ => &[],
    }
}

pub(crate) fn name_parameter(kind: &str) -> Parameter {
    Parameter {
        name: "name",
        location: ParameterLocation::Path,
        kind: STRING,
        description: format!("The name of the {kind}.").into(),
    }
}
