package main

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/storage"
)

type statusRequest struct {
	Constructor     string       `json:"constructor"`
	Group           string       `json:"group"`
	Resource        string       `json:"resource"`
	Name            string       `json:"name"`
	Message         string       `json:"message"`
	Retry           int          `json:"retry"`
	Code            int          `json:"code"`
	Unexpected      bool         `json:"unexpected"`
	ResourceVersion uint64       `json:"resource_version"`
	Accepted        []string     `json:"accepted"`
	Errors          []fieldError `json:"errors"`
}

type fieldError struct {
	Kind   string   `json:"kind"`
	Field  string   `json:"field"`
	Value  string   `json:"value"`
	Detail string   `json:"detail"`
	Number int      `json:"number"`
	Valid  []string `json:"valid"`
}

func statusOf(q *statusRequest) *metav1.Status {
	err := newStatus(q)
	if err == nil {
		return nil
	}
	status := err.Status()
	status.Kind = "Status"
	status.APIVersion = "v1"
	return &status
}

func newStatus(q *statusRequest) apierrors.APIStatus {
	resource := schema.GroupResource{Group: q.Group, Resource: q.Resource}
	switch q.Constructor {
	case "not_found":
		return apierrors.NewNotFound(resource, q.Name)
	case "already_exists":
		return apierrors.NewAlreadyExists(resource, q.Name)
	case "generate_name_conflict":
		return apierrors.NewGenerateNameConflict(resource, q.Name, q.Retry)
	case "conflict":
		return apierrors.NewConflict(resource, q.Name, errors.New(q.Message))
	case "apply_conflict":
		return apierrors.NewApplyConflict([]metav1.StatusCause{{Field: q.Name}}, q.Message)
	case "invalid":
		return apierrors.NewInvalid(schema.GroupKind{Group: q.Group, Kind: q.Resource}, q.Name, fieldErrors(q.Errors))
	case "bad_request":
		return apierrors.NewBadRequest(q.Message)
	case "unauthorized":
		return apierrors.NewUnauthorized(q.Message)
	case "forbidden":
		return apierrors.NewForbidden(resource, q.Name, errors.New(q.Message))
	case "method_not_supported":
		return apierrors.NewMethodNotSupported(resource, q.Message)
	case "request_entity_too_large":
		return apierrors.NewRequestEntityTooLargeError(q.Message)
	case "too_many_requests":
		return apierrors.NewTooManyRequests(q.Message, q.Retry)
	case "timeout":
		return apierrors.NewTimeoutError(q.Message, q.Retry)
	case "server_timeout":
		return apierrors.NewServerTimeout(resource, q.Message, q.Retry)
	case "expired":
		return apierrors.NewResourceExpired(q.Message)
	case "gone":
		return apierrors.NewGone(q.Message)
	case "internal_error":
		return apierrors.NewInternalError(errors.New(q.Message))
	case "service_unavailable":
		return apierrors.NewServiceUnavailable(q.Message)
	case "not_acceptable":
		return asStatus(negotiation.NewNotAcceptableError(q.Accepted))
	case "unsupported_media_type":
		return asStatus(negotiation.NewUnsupportedMediaTypeError(q.Accepted))
	case "too_large_resource_version":
		return asStatus(storage.NewTooLargeResourceVersionError(q.ResourceVersion, uint64(q.Code), q.Retry))
	case "server_response":
		return apierrors.NewGenericServerResponse(q.Code, "POST", resource, q.Name, q.Message, q.Retry, q.Unexpected)
	}
	return nil
}

func asStatus(err error) apierrors.APIStatus {
	var status apierrors.APIStatus
	errors.As(err, &status)
	return status
}

func fieldErrors(requests []fieldError) field.ErrorList {
	var list field.ErrorList
	for _, q := range requests {
		list = append(list, newFieldError(field.NewPath("spec").Child(q.Field), q))
	}
	return list
}

func newFieldError(at *field.Path, q fieldError) *field.Error {
	switch q.Kind {
	case "required":
		return field.Required(at, q.Detail)
	case "invalid":
		return field.Invalid(at, q.Value, q.Detail)
	case "invalid_number":
		return field.Invalid(at.Index(q.Number), int64(q.Number), q.Detail)
	case "invalid_list":
		return field.Invalid(at.Key(q.Value), q.Valid, q.Detail)
	case "type_invalid":
		return field.TypeInvalid(at, q.Value, q.Detail)
	case "not_supported":
		return field.NotSupported(at, q.Value, q.Valid)
	case "forbidden":
		return field.Forbidden(at, q.Detail)
	case "duplicate":
		return field.Duplicate(at, q.Value)
	case "not_found":
		return field.NotFound(at, q.Value)
	case "too_long":
		return field.TooLong(at, q.Value, q.Number)
	case "too_long_characters":
		return field.TooLongCharacters(at, q.Value, q.Number)
	case "too_short":
		return field.TooShort(at, q.Value, q.Number)
	case "too_many_unknown":
		return field.TooMany(at, -1, q.Number)
	case "too_many":
		return field.TooMany(at, len(q.Value), q.Number)
	case "too_few":
		return field.TooFew(at, len(q.Value), q.Number)
	}
	return field.InternalError(at, errors.New(q.Detail))
}
