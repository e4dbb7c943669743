//! Generates the requests.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use rhumb_meta::LabelSelector;
use rhumb_meta::labels::LabelSelectorRequirement;

use crate::edge_cases::EDGES;
use crate::protocol::{
    FieldErrorRequest, LabelSelectorValidationOptions, OracleRequest, StatusRequest,
};
use crate::support;

pub(crate) fn table() -> Vec<OracleRequest> {
    let long: Vec<String> = [62, 63, 64, 252, 253, 254]
        .into_iter()
        .map(|len| "a".repeat(len))
        .collect();
    let prefixed = long.iter().flat_map(|long| {
        [
            format!("{long}/b"),
            format!("b/{long}"),
            format!("a={long}"),
        ]
    });
    let dotted = long.iter().map(|long| long.replace("aa", "a."));
    let many = (0..40)
        .rev()
        .map(|n| format!("key-{n} in (v{n},b,a)"))
        .collect::<Vec<_>>()
        .join(",");
    let texts = EDGES
        .iter()
        .map(ToString::to_string)
        .chain(long.clone())
        .chain(prefixed)
        .chain(dotted)
        .chain([many]);
    let labels: BTreeMap<String, String> = [("a", "b"), ("in", "in"), ("k", "7"), ("l", "x")]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .into();
    let mut requests: Vec<OracleRequest> = texts
        .flat_map(|text| {
            [
                "labels",
                "fields",
                "names",
                "group_version",
                "quote",
                "json",
            ]
            .map(|op| OracleRequest {
                labels: labels.clone(),
                ..OracleRequest::text(op, text.clone())
            })
        })
        .collect();
    requests.push(OracleRequest {
        op: "label_selector",
        ..OracleRequest::default()
    });
    requests.push(OracleRequest {
        op: "label_selector",
        selector: Some(LabelSelector::default()),
        ..OracleRequest::default()
    });
    requests
}

pub(crate) fn path() -> impl Strategy<Value = &'static str> {
    select(vec!["", "spec.selector"])
}

pub(crate) fn set() -> impl Strategy<Value = BTreeMap<String, String>> {
    support::labels().prop_map(|labels| labels.into_iter().collect())
}

pub(crate) fn labels() -> impl Strategy<Value = OracleRequest> {
    let input = prop_oneof![
        2 => support::any_text(),
        1 => support::selector(),
        1 => support::requirement(),
    ];
    (input, path(), set()).prop_map(|(input, path, labels)| OracleRequest {
        path,
        labels,
        ..OracleRequest::text("labels", input)
    })
}

pub(crate) fn fields() -> impl Strategy<Value = OracleRequest> {
    let input = prop_oneof![2 => support::any_text(), 2 => r"[ab!=,\\é]{0,24}", 1 => "((a|b|in)(=|==|!=)[ab5]?,){0,4}"];
    (input, set()).prop_map(|(input, labels)| OracleRequest {
        labels,
        ..OracleRequest::text("fields", input)
    })
}

pub(crate) fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => support::key(),
        1 => "[a-zA-Z0-9._/-]{0,12}",
        1 => "[a-z0-9.-]{0,300}",
        1 => "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?){0,5}/[A-Za-z0-9_.-]{0,70}",
        1 => ".{0,8}",
    ]
}

pub(crate) fn names() -> impl Strategy<Value = OracleRequest> {
    prop_oneof![4 => name(), 1 => support::any_text(), 1 => "[%/.]{0,4}"]
        .prop_map(|name| OracleRequest::text("names", name))
}

fn expression() -> impl Strategy<Value = LabelSelectorRequirement> {
    let operator = prop_oneof![
        8 => select(vec!["In", "NotIn", "Exists", "DoesNotExist"]).prop_map(str::to_owned),
        1 => select(vec!["", "in", "Gt", "=", "<&>", "\u{2028}"]).prop_map(str::to_owned),
    ];
    let value = prop_oneof![6 => support::value(), 1 => name()];
    let key = prop_oneof![6 => support::key(), 1 => name()];
    (key, operator, proptest::collection::vec(value, 0..4)).prop_map(|(key, operator, values)| {
        LabelSelectorRequirement {
            key,
            operator,
            values,
        }
    })
}

/// Go iterates over `matchLabels` in random order, so at most one label may be invalid for a deterministic error.
pub(crate) fn label_selector() -> impl Strategy<Value = OracleRequest> {
    let valid = proptest::collection::btree_map(support::key(), support::value(), 0..4);
    let invalid = proptest::collection::btree_map(name(), name(), 1);
    let match_labels = prop_oneof![4 => valid, 1 => invalid];
    let selector = (match_labels, proptest::collection::vec(expression(), 0..5)).prop_map(
        |(match_labels, match_expressions)| LabelSelector {
            match_labels,
            match_expressions,
        },
    );
    let options =
        (any::<bool>(), any::<bool>()).prop_map(|(invalid_label_value, unknown_operator)| {
            LabelSelectorValidationOptions {
                invalid_label_value,
                unknown_operator,
            }
        });
    (selector, options, set()).prop_map(|(selector, options, labels)| OracleRequest {
        op: "label_selector",
        labels,
        selector: Some(selector),
        options,
        ..OracleRequest::default()
    })
}

const CONSTRUCTORS: &[&str] = &[
    "not_found",
    "already_exists",
    "generate_name_conflict",
    "conflict",
    "apply_conflict",
    "invalid",
    "invalid",
    "invalid",
    "bad_request",
    "unauthorized",
    "forbidden",
    "method_not_supported",
    "request_entity_too_large",
    "too_many_requests",
    "timeout",
    "server_timeout",
    "expired",
    "gone",
    "internal_error",
    "service_unavailable",
    "not_acceptable",
    "unsupported_media_type",
    "too_large_resource_version",
    "server_response",
    "server_response",
];

const CODES: &[i32] = &[
    200, 302, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429, 500, 502, 503, 504, 599,
];

const FIELD_ERRORS: &[&str] = &[
    "required",
    "invalid",
    "invalid_number",
    "invalid_list",
    "type_invalid",
    "not_supported",
    "forbidden",
    "duplicate",
    "not_found",
    "too_long",
    "too_long_characters",
    "too_short",
    "too_many",
    "too_many_unknown",
    "too_few",
    "internal",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![2 => "[a-z]{0,6}", 1 => ".{0,6}", 1 => Just(String::new()), 1 => Just("unknown".to_owned())]
}

fn field_error() -> impl Strategy<Value = FieldErrorRequest> {
    let words = (
        select(vec!["x", "y.z"]),
        word(),
        word(),
        proptest::collection::vec(word(), 0..3),
    );
    (select(FIELD_ERRORS), words, 0_usize..3).prop_map(
        |(kind, (field, value, detail, valid), number)| FieldErrorRequest {
            kind,
            field: field.to_owned(),
            value,
            detail,
            number,
            valid,
        },
    )
}

pub(crate) fn status() -> impl Strategy<Value = OracleRequest> {
    let group = select(vec!["", "apps", "example.com"]).prop_map(str::to_owned);
    let resource = select(vec!["", "pods", "deployments"]).prop_map(str::to_owned);
    let errors = proptest::collection::vec(field_error(), 0..4);
    let numbers = (0_i32..4, select(CODES), any::<bool>(), any::<u64>());
    let accepted = proptest::collection::vec(word(), 0..3);
    (
        select(CONSTRUCTORS),
        group,
        resource,
        word(),
        word(),
        numbers,
        (accepted, errors),
    )
        .prop_map(
            |(constructor, group, resource, name, message, numbers, (accepted, errors))| {
                let (retry, code, unexpected, resource_version) = numbers;
                OracleRequest {
                    op: "status",
                    status: StatusRequest {
                        constructor,
                        group,
                        resource,
                        name,
                        message,
                        retry,
                        code,
                        unexpected,
                        resource_version,
                        accepted,
                        errors,
                    },
                    ..OracleRequest::default()
                }
            },
        )
}

pub(crate) fn text() -> impl Strategy<Value = OracleRequest> {
    let text =
        prop_oneof![1 => "[ -~\\x00-\\x1f\u{7f}\u{2028}\u{2029}]{0,40}", 1 => support::any_text()];
    let op = select(vec!["quote", "json", "group_version"]);
    (op, text).prop_map(|(op, text)| OracleRequest::text(op, text))
}
