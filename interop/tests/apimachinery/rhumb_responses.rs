//! rhumb's responses to the requests.

use std::collections::BTreeMap;
use std::fmt::Display;

use rhumb_meta::clock::ParseTimestampError;
use rhumb_meta::field::{BadValue, Error, ErrorList, Path};
use rhumb_meta::labels::{
    LabelSelector, LabelSelectorValidationOptions, Operator, Requirement, Selector,
};
use rhumb_meta::status::{GenericServerResponse, StatusCause};
use rhumb_meta::{
    GroupKind, GroupResource, GroupVersion, Quantity, Revision, Status, Timestamp, fields, gotext,
    validation,
};

use crate::protocol::{FieldErrorRequest, OracleRequest, OracleResponse, StatusRequest};
use crate::random_values::OPERATORS;

pub(crate) fn respond(request: &OracleRequest) -> OracleResponse {
    let input = request.input.as_str();
    match request.op {
        "labels" => match Selector::parse_at(&field_path(request), input) {
            Ok(selector) => describe_selector(&selector, &request.labels),
            Err(error) => error_response(error),
        },
        "requirement" => requirement(request),
        "fields" => match fields::Selector::parse(input) {
            Ok(selector) => describe_fields(&selector, &request.labels),
            Err(error) => error_response(error),
        },
        "label_selector" => label_selector(request),
        "names" => names(input),
        "group_version" => match input.parse::<GroupVersion>() {
            Ok(version) => output_response(version),
            Err(error) => error_response(error),
        },
        "quote" => output_response(gotext::quote(input)),
        "json" => output_response(gotext::json(input)),
        "format_time" => {
            let at = Timestamp::from_unix(request.seconds, request.nanos);
            output_response(format_args!(
                "\"{}\"\"{}\"",
                at.rfc3339(),
                at.rfc3339_micro()
            ))
        }
        "parse_time" => output_response(format_args!(
            "{} {}",
            format_parsed_time(input.parse()),
            format_parsed_time(Timestamp::from_rfc3339_micro(input))
        )),
        "float" => output_response(float(f64::from_bits(request.bits))),
        "quantity" => quantity(input, &request.values[0]),
        "status" => {
            let status = status(&request.status);
            OracleResponse {
                status: serde_json::to_value(status).expect("serializes"),
                ..OracleResponse::default()
            }
        }
        other => panic!("unknown op {other}"),
    }
}

fn quantity(left: &str, right: &str) -> OracleResponse {
    let parsed = Quantity::parse(left).and_then(|left| Ok((left, Quantity::parse(right)?)));
    let (left, right) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return error_response(error),
    };
    let (mut rounded, mut sum, mut difference) = (left.clone(), left.clone(), left.clone());
    rounded.round_up(-3);
    sum.add(&right);
    difference.sub(&right);
    let order = left.cmp(&right) as i8;
    output_response(format_args!("{left} {rounded} {order} {sum} {difference}"))
}

fn output_response(output: impl Display) -> OracleResponse {
    OracleResponse {
        output: output.to_string(),
        ..OracleResponse::default()
    }
}

fn error_response(error: impl Display) -> OracleResponse {
    OracleResponse {
        error: error.to_string(),
        ..OracleResponse::default()
    }
}

fn field_path(request: &OracleRequest) -> Path<'static> {
    match request.path {
        "" => Path::NIL,
        path => Path::new(path),
    }
}

fn requirement(request: &OracleRequest) -> OracleResponse {
    let path = field_path(request);
    let (key, values) = (request.input.as_str(), request.values.as_slice());
    let operator = operator(request.operator);
    let result = match request.path {
        "" => Requirement::new(key, operator, values),
        _ => Requirement::new_at(&path, key, operator, values),
    };
    match result {
        Ok(requirement) => OracleResponse {
            matches: requirement.matches(&request.labels),
            ..output_response(requirement)
        },
        Err(errors) => error_response(errors),
    }
}

fn operator(text: &str) -> Operator {
    let known = OPERATORS.into_iter().find(|known| known.as_str() == text);
    known.unwrap_or_else(|| panic!("unknown operator {text}"))
}

fn format_parsed_time(read: Result<Timestamp, ParseTimestampError>) -> String {
    match read {
        Ok(at) => format!("{}.{}", at.unix_seconds(), at.subsec_nanos()),
        Err(_) => "invalid".to_owned(),
    }
}

#[allow(clippy::cast_possible_truncation, reason = "both sizes are encoded")]
fn float(value: f64) -> String {
    let in_error = Error::invalid(&Path::new("x"), value, "");
    let single = value as f32;
    format!(
        "{in_error} {} {}",
        gotext::json(&value),
        gotext::json(&single)
    )
}

fn describe_selector(selector: &Selector, labels: &BTreeMap<String, String>) -> OracleResponse {
    let keys = selector
        .requirements()
        .unwrap_or_default()
        .iter()
        .map(Requirement::key);
    let exact_match = |key: &str| {
        Some((
            key.to_owned(),
            selector.requires_exact_match(key)?.to_owned(),
        ))
    };
    OracleResponse {
        output: selector.to_string(),
        matches: selector.matches(labels),
        exact_matches: keys.filter_map(exact_match).collect(),
        ..OracleResponse::default()
    }
}

fn describe_fields(
    selector: &fields::Selector,
    values: &BTreeMap<String, String>,
) -> OracleResponse {
    let names = selector
        .requirements()
        .unwrap_or_default()
        .iter()
        .map(fields::Requirement::field);
    let exact_match = |name: &str| {
        Some((
            name.to_owned(),
            selector.requires_exact_match(name)?.to_owned(),
        ))
    };
    OracleResponse {
        output: selector.to_string(),
        matches: selector.matches(values),
        exact_matches: names.filter_map(exact_match).collect(),
        ..OracleResponse::default()
    }
}

fn label_selector(request: &OracleRequest) -> OracleResponse {
    let mut response = match LabelSelector::to_selector(request.selector.as_ref()) {
        Ok(selector) => describe_selector(&selector, &request.labels),
        Err(error) => error_response(error),
    };
    if let Some(selector) = &request.selector {
        let options = LabelSelectorValidationOptions {
            allow_invalid_label_value: request.options.invalid_label_value,
            allow_unknown_operator: request.options.unknown_operator,
        };
        let errors = selector.validate(options, &Path::new("spec.selector"));
        response.errors = errors.iter().map(ToString::to_string).collect();
        response.has_invalid_label_value = selector.has_invalid_label_value();
    }
    response
}

fn names(name: &str) -> OracleResponse {
    let problems = |found: validation::ValidationProblems| {
        (!found.is_empty()).then(|| found.into_iter().map(str::to_owned).collect())
    };
    let entries = [
        ("qualified_name", validation::qualified_name(name)),
        ("label_value", validation::label_value(name)),
        ("dns1123_label", validation::dns1123_label(name)),
        ("dns1123_subdomain", validation::dns1123_subdomain(name)),
        ("dns1035_label", validation::dns1035_label(name)),
        ("path_segment_name", validation::path_segment_name(name)),
        ("path_segment_prefix", validation::path_segment_prefix(name)),
    ];
    let problems = entries
        .into_iter()
        .map(|(format, found)| (format.to_owned(), problems(found)))
        .collect();
    OracleResponse {
        problems,
        ..OracleResponse::default()
    }
}

fn status(q: &StatusRequest) -> Option<Status> {
    let resource = &GroupResource::new(q.group.clone(), q.resource.clone());
    let (name, message) = (q.name.as_str(), q.message.as_str());
    Some(match q.constructor {
        "not_found" => Status::not_found(resource, name),
        "already_exists" => Status::already_exists(resource, name),
        "generate_name_conflict" => Status::generate_name_conflict(resource, name, q.retry),
        "conflict" => Status::conflict(resource, name, message),
        "apply_conflict" => {
            let cause = StatusCause {
                field: q.name.clone(),
                ..StatusCause::default()
            };
            Status::apply_conflict(vec![cause], message)
        }
        "invalid" => {
            let kind = GroupKind::new(q.group.clone(), q.resource.clone());
            Status::invalid(
                &kind,
                name,
                &q.errors.iter().map(field_error).collect::<ErrorList>(),
            )
        }
        "bad_request" => Status::bad_request(message),
        "unauthorized" => Status::unauthorized(message),
        "forbidden" => Status::forbidden(resource, name, message),
        "method_not_supported" => Status::method_not_supported(resource, message),
        "request_entity_too_large" => Status::request_entity_too_large(message),
        "too_many_requests" => Status::too_many_requests(message, q.retry),
        "timeout" => Status::timeout(message, q.retry),
        "server_timeout" => Status::server_timeout(resource, message, q.retry),
        "expired" => Status::expired(message),
        "gone" => Status::gone(message),
        "internal_error" => Status::internal_error(message),
        "service_unavailable" => Status::service_unavailable(message),
        "not_acceptable" => Status::not_acceptable(&accepted(q)),
        "unsupported_media_type" => Status::unsupported_media_type(&accepted(q)),
        "too_large_resource_version" => {
            let current = u64::try_from(q.code).expect("is positive");
            Status::too_large_resource_version(
                Revision::new(q.resource_version),
                Revision::new(current),
                q.retry,
            )
        }
        "server_response" => Status::from_server_response(&GenericServerResponse {
            code: q.code,
            verb: "POST",
            resource,
            name,
            message,
            retry_after_seconds: q.retry,
            is_unexpected: q.unexpected,
        }),
        _ => return None,
    })
}

fn accepted(q: &StatusRequest) -> Vec<&str> {
    q.accepted.iter().map(String::as_str).collect()
}

fn field_error(q: &FieldErrorRequest) -> Error {
    let spec = Path::new("spec");
    let at = &spec.child(&q.field);
    let (value, detail) = (q.value.as_str(), q.detail.as_str());
    match q.kind {
        "required" => Error::required(at, detail),
        "invalid" => Error::invalid(at, value, detail),
        "invalid_number" => Error::invalid(
            &at.index(q.number),
            i64::try_from(q.number).expect("is small"),
            detail,
        ),
        "invalid_list" => Error::invalid(&at.key(value), BadValue::json(&q.valid), detail),
        "type_invalid" => Error::type_invalid(at, value, detail),
        "not_supported" => Error::not_supported(at, value, &q.valid),
        "forbidden" => Error::forbidden(at, detail),
        "duplicate" => Error::duplicate(at, value),
        "not_found" => Error::not_found(at, value),
        "too_long" => Error::too_long(at, q.number),
        "too_long_characters" => Error::too_long_characters(at, q.number),
        "too_short" => Error::too_short(at, q.number),
        "too_many_unknown" => Error::too_many(at, None, q.number),
        "too_many" => Error::too_many(at, Some(value.len()), q.number),
        "too_few" => Error::too_few(at, value.len(), q.number),
        _ => Error::internal(at, detail),
    }
}
