//! The parameters that operations take.

use std::borrow::Cow;

use crate::operation::{Parameter, Place};

const fn query(name: &'static str, kind: &'static str, description: &'static str) -> Parameter {
    Parameter {
        name,
        place: Place::Query,
        kind,
        description: Cow::Borrowed(description),
    }
}

const fn path(name: &'static str, description: &'static str) -> Parameter {
    Parameter {
        name,
        place: Place::Path,
        kind: STRING,
        description: Cow::Borrowed(description),
    }
}

const STRING: &str = "string";
const INTEGER: &str = "integer";
const BOOLEAN: &str = "boolean";

pub(crate) const PRETTY: Parameter =
    query("pretty", STRING, "If \"true\", the answer is indented.");
pub(crate) const NAMESPACE: Parameter = path("namespace", "The namespace of the object.");
pub(crate) const PATH: Parameter = path("path", "The path below the proxied resource.");

const CONTINUE: Parameter = query(
    "continue",
    STRING,
    "Where to go on with a list that was limited: the value that the last part of it gave.",
);
const DRY_RUN: Parameter = query("dryRun", STRING, "If \"All\", nothing is stored.");
const FIELD_SELECTOR: Parameter = query(
    "fieldSelector",
    STRING,
    "Only objects with these values of fields.",
);
const LABEL_SELECTOR: Parameter = query("labelSelector", STRING, "Only objects with these labels.");
const LIMIT: Parameter = query(
    "limit",
    INTEGER,
    "How many objects a part of a list may have.",
);
const RESOURCE_VERSION: Parameter =
    query("resourceVersion", STRING, "How fresh the answer must be.");
const RESOURCE_VERSION_MATCH: Parameter = query(
    "resourceVersionMatch",
    STRING,
    "Whether resourceVersion is the exact one (\"Exact\") or the oldest one (\"NotOlderThan\").",
);
const SEND_INITIAL_EVENTS: Parameter = query(
    "sendInitialEvents",
    BOOLEAN,
    "A watch begins with all objects there are, and a bookmark after them.",
);
const SHARD_SELECTOR: Parameter = query("shardSelector", STRING, "Only objects of this shard.");
const TIMEOUT_SECONDS: Parameter = query(
    "timeoutSeconds",
    INTEGER,
    "How long a list or watch may take.",
);

pub(crate) const LIST: &[Parameter] = &[
    query(
        "allowWatchBookmarks",
        BOOLEAN,
        "A watch may have events that only tell how far it is.",
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
        "Changes are sent as they happen, instead of a list.",
    ),
];

pub(crate) const WRITE: &[Parameter] = &[
    DRY_RUN,
    query(
        "fieldManager",
        STRING,
        "Who is said to have set the fields that this request sets.",
    ),
    query(
        "fieldValidation",
        STRING,
        "What happens with unknown and duplicate fields: \"Ignore\", \"Warn\" or \"Strict\".",
    ),
];

pub(crate) const FORCE: Parameter = query(
    "force",
    BOOLEAN,
    "An apply takes over fields that others have set.",
);

pub(crate) const DELETE: &[Parameter] = &[
    DRY_RUN,
    query(
        "gracePeriodSeconds",
        INTEGER,
        "How long the object may take to end; zero for not at all.",
    ),
    query(
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        BOOLEAN,
        "The object is removed although it cannot be read. What depends on it is not looked at.",
    ),
    query(
        "orphanDependents",
        BOOLEAN,
        "Deprecated: propagationPolicy says it better.",
    ),
    query(
        "propagationPolicy",
        STRING,
        "What becomes of dependents: \"Orphan\", \"Background\" or \"Foreground\".",
    ),
];

/// Beside those of a delete.
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
        "Whose log; may be left out if there is one container.",
    ),
    query("follow", BOOLEAN, "The log is sent as it is written."),
    query(
        "insecureSkipTLSVerifyBackend",
        BOOLEAN,
        "The node's certificate is not checked.",
    ),
    query("limitBytes", INTEGER, "How many bytes at most."),
    query(
        "previous",
        BOOLEAN,
        "The log of the container before its last restart.",
    ),
    query(
        "sinceSeconds",
        INTEGER,
        "Only what was written in that time.",
    ),
    query("stream", STRING, "\"All\", \"Stdout\" or \"Stderr\"."),
    query("tailLines", INTEGER, "How many lines from the end."),
    query(
        "timestamps",
        BOOLEAN,
        "Every line begins with the time it was written.",
    ),
];

const CONTAINER: Parameter = query(
    "container",
    STRING,
    "Which container; may be left out if there is one.",
);
const STDERR: Parameter = query("stderr", BOOLEAN, "Standard error is sent back.");
const STDIN: Parameter = query("stdin", BOOLEAN, "Standard input is taken.");
const STDOUT: Parameter = query("stdout", BOOLEAN, "Standard output is sent back.");
const TTY: Parameter = query("tty", BOOLEAN, "The command gets a terminal.");

const ATTACH: &[Parameter] = &[CONTAINER, STDERR, STDIN, STDOUT, TTY];
const EXEC: &[Parameter] = &[
    query(
        "command",
        STRING,
        "The command, once for each of its words.",
    ),
    CONTAINER,
    STDERR,
    STDIN,
    STDOUT,
    TTY,
];
const PORT_FORWARD: &[Parameter] = &[query("ports", INTEGER, "The ports of the pod.")];
const PROXY: &[Parameter] = &[query(
    "path",
    STRING,
    "The path that is asked for behind the proxy.",
)];

/// The parameters of a subresource that connects to something.
pub(crate) fn of_connection(subresource: &str) -> &'static [Parameter] {
    match subresource {
        "attach" => ATTACH,
        "exec" => EXEC,
        "portforward" => PORT_FORWARD,
        "proxy" => PROXY,
        _ => &[],
    }
}

pub(crate) fn name_of(kind: &str) -> Parameter {
    Parameter {
        name: "name",
        place: Place::Path,
        kind: STRING,
        description: format!("The name of the {kind}.").into(),
    }
}
