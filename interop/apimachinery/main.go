// Evaluates functions of Kubernetes' apimachinery and error constructors of its apiserver: one JSON request per line in,
// one JSON response per line out, in order.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"

	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The maximum length of a request line: selectors have up to a megabyte, and JSON can escape one byte as six.
const lineBytesMax = 16 << 20

type oracleRequest struct {
	Op       string                `json:"op"`
	Input    string                `json:"input"`
	Path     string                `json:"path"`
	Operator string                `json:"operator"`
	Values   []string              `json:"values"`
	Labels   map[string]string     `json:"labels"`
	Selector *metav1.LabelSelector `json:"selector"`
	Options  validationOptions     `json:"options"`
	Seconds  int64                 `json:"seconds"`
	Nanos    int64                 `json:"nanos"`
	Bits     uint64                `json:"bits"`
	Status   statusRequest         `json:"status"`
}

type validationOptions struct {
	InvalidLabelValue bool `json:"invalid_label_value"`
	UnknownOperator   bool `json:"unknown_operator"`
}

// Fields that do not apply to a request have their zero value, on both sides.
type oracleResponse struct {
	Output               string              `json:"output"`
	Error                string              `json:"error"`
	Matches              bool                `json:"matches"`
	HasInvalidLabelValue bool                `json:"has_invalid_label_value"`
	ExactMatches         map[string]string   `json:"exact_matches"`
	Problems             map[string][]string `json:"problems"`
	Errors               []string            `json:"errors"`
	Status               *metav1.Status      `json:"status"`
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<16), lineBytesMax)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	for in.Scan() {
		var q oracleRequest
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			fail("failed to decode a request", err)
		}
		if err := encoder.Encode(respond(&q)); err != nil {
			fail("failed to write a response", err)
		}
	}
	if err := in.Err(); err != nil {
		fail("failed to read requests", err)
	}
	if err := out.Flush(); err != nil {
		fail("failed to write responses", err)
	}
}

func fail(action string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", action, err)
	os.Exit(1)
}

func respond(q *oracleRequest) oracleResponse {
	switch q.Op {
	case "labels":
		return parseLabelSelector(q)
	case "requirement":
		return newRequirement(q)
	case "fields":
		return parseFieldSelector(q)
	case "label_selector":
		return convertLabelSelector(q)
	case "names":
		return validateName(q.Input)
	case "group_version":
		gv, err := schema.ParseGroupVersion(q.Input)
		return oracleResponse{Output: gv.String(), Error: errorText(err)}
	case "quote":
		return oracleResponse{Output: strconv.Quote(q.Input)}
	case "json":
		return oracleResponse{Output: encode(q.Input)}
	case "format_time":
		return oracleResponse{Output: formatTime(q.Seconds, q.Nanos)}
	case "parse_time":
		return oracleResponse{Output: parseTime(q.Input)}
	case "float":
		return oracleResponse{Output: formatFloat(math.Float64frombits(q.Bits))}
	case "quantity":
		return computeQuantity(q)
	case "status":
		return oracleResponse{Status: statusOf(&q.Status)}
	}
	return oracleResponse{Error: "unknown op " + q.Op}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func encode(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(encoded)
}

func parseLabelSelector(q *oracleRequest) oracleResponse {
	selector, err := labels.Parse(q.Input, pathOptions(q.Path)...)
	if err != nil {
		return oracleResponse{Error: err.Error()}
	}
	return describeSelector(selector, q.Labels)
}

func pathOptions(name string) []field.PathOption {
	if name == "" {
		return nil
	}
	return []field.PathOption{field.WithPath(field.NewPath(name))}
}

// Passes nil if there are no values, as all callers upstream do: messages show an empty list that is not nil as [].
func newRequirement(q *oracleRequest) oracleResponse {
	var values []string
	if len(q.Values) > 0 {
		values = q.Values
	}
	requirement, err := labels.NewRequirement(q.Input, selection.Operator(q.Operator), values, pathOptions(q.Path)...)
	if err != nil {
		return oracleResponse{Error: err.Error()}
	}
	return oracleResponse{Output: requirement.String(), Matches: requirement.Matches(labels.Set(q.Labels))}
}

func describeSelector(selector labels.Selector, set map[string]string) oracleResponse {
	exact := map[string]string{}
	requirements, _ := selector.Requirements()
	for i := range requirements {
		key := requirements[i].Key()
		if value, found := selector.RequiresExactMatch(key); found {
			exact[key] = value
		}
	}
	return oracleResponse{Output: selector.String(), Matches: selector.Matches(labels.Set(set)), ExactMatches: exact}
}

func parseFieldSelector(q *oracleRequest) oracleResponse {
	selector, err := fields.ParseSelector(q.Input)
	if err != nil {
		return oracleResponse{Error: err.Error()}
	}
	exact := map[string]string{}
	for _, requirement := range selector.Requirements() {
		if value, found := selector.RequiresExactMatch(requirement.Field); found {
			exact[requirement.Field] = value
		}
	}
	return oracleResponse{Output: selector.String(), Matches: selector.Matches(fields.Set(q.Labels)), ExactMatches: exact}
}

func convertLabelSelector(q *oracleRequest) oracleResponse {
	var result oracleResponse
	selector, err := metav1.LabelSelectorAsSelector(q.Selector)
	if err != nil {
		result.Error = err.Error()
	} else {
		result = describeSelector(selector, q.Labels)
	}
	options := metavalidation.LabelSelectorValidationOptions{
		AllowInvalidLabelValueInSelector:  q.Options.InvalidLabelValue,
		AllowUnknownOperatorInRequirement: q.Options.UnknownOperator,
	}
	for _, problem := range metavalidation.ValidateLabelSelector(q.Selector, options, field.NewPath("spec", "selector")) {
		result.Errors = append(result.Errors, problem.Error())
	}
	result.HasInvalidLabelValue = metavalidation.LabelSelectorHasInvalidLabelValue(q.Selector)
	return result
}

func validateName(name string) oracleResponse {
	return oracleResponse{Problems: map[string][]string{
		"qualified_name":      validation.IsQualifiedName(name),
		"label_value":         validation.IsValidLabelValue(name),
		"dns1123_label":       validation.IsDNS1123Label(name),
		"dns1123_subdomain":   validation.IsDNS1123Subdomain(name),
		"dns1035_label":       validation.IsDNS1035Label(name),
		"path_segment_name":   path.IsValidPathSegmentName(name),
		"path_segment_prefix": path.IsValidPathSegmentPrefix(name),
	}}
}
