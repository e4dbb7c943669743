// Answers questions about Kubernetes' apimachinery and the errors of its apiserver: one JSON object a line in, one a line out, in order.
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

// The longest line that is read: selectors are tested up to a megabyte, and JSON can make six bytes of one.
const lineBytesMax = 16 << 20

type question struct {
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
	Status   statusQuestion        `json:"status"`
}

type validationOptions struct {
	InvalidLabelValue bool `json:"invalid_label_value"`
	UnknownOperator   bool `json:"unknown_operator"`
}

// Fields that do not apply to a question stay at their zero value, on both sides.
type answer struct {
	Output   string              `json:"output"`
	Error    string              `json:"error"`
	Matches  bool                `json:"matches"`
	Outdated bool                `json:"outdated"`
	Exact    map[string]string   `json:"exact"`
	Problems map[string][]string `json:"problems"`
	Errors   []string            `json:"errors"`
	Status   *metav1.Status      `json:"status"`
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<16), lineBytesMax)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	for in.Scan() {
		var q question
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			fail("cannot read question", err)
		}
		if err := encoder.Encode(reply(&q)); err != nil {
			fail("cannot write answer", err)
		}
	}
	if err := in.Err(); err != nil {
		fail("cannot read questions", err)
	}
	if err := out.Flush(); err != nil {
		fail("cannot write answers", err)
	}
}

func fail(what string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
	os.Exit(1)
}

func reply(q *question) answer {
	switch q.Op {
	case "labels":
		return askLabels(q)
	case "requirement":
		return askRequirement(q)
	case "fields":
		return askFields(q)
	case "labelselector":
		return askLabelSelector(q)
	case "names":
		return askNames(q.Input)
	case "groupversion":
		gv, err := schema.ParseGroupVersion(q.Input)
		return answer{Output: gv.String(), Error: text(err)}
	case "quote":
		return answer{Output: strconv.Quote(q.Input)}
	case "json":
		return answer{Output: encode(q.Input)}
	case "time":
		return answer{Output: printTime(q.Seconds, q.Nanos)}
	case "readtime":
		return answer{Output: readTime(q.Input)}
	case "float":
		return answer{Output: printFloat(math.Float64frombits(q.Bits))}
	case "quantity":
		return askQuantity(q)
	case "status":
		return answer{Status: askStatus(&q.Status)}
	}
	return answer{Error: "unknown op " + q.Op}
}

func text(err error) string {
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

func askLabels(q *question) answer {
	selector, err := labels.Parse(q.Input, under(q.Path)...)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return describe(selector, q.Labels)
}

func under(name string) []field.PathOption {
	if name == "" {
		return nil
	}
	return []field.PathOption{field.WithPath(field.NewPath(name))}
}

// No values are nil, as in all callers upstream: an empty list that is not nil would be shown as [].
func askRequirement(q *question) answer {
	var values []string
	if len(q.Values) > 0 {
		values = q.Values
	}
	requirement, err := labels.NewRequirement(q.Input, selection.Operator(q.Operator), values, under(q.Path)...)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Output: requirement.String(), Matches: requirement.Matches(labels.Set(q.Labels))}
}

func describe(selector labels.Selector, set map[string]string) answer {
	exact := map[string]string{}
	requirements, _ := selector.Requirements()
	for i := range requirements {
		key := requirements[i].Key()
		if value, found := selector.RequiresExactMatch(key); found {
			exact[key] = value
		}
	}
	return answer{Output: selector.String(), Matches: selector.Matches(labels.Set(set)), Exact: exact}
}

func askFields(q *question) answer {
	selector, err := fields.ParseSelector(q.Input)
	if err != nil {
		return answer{Error: err.Error()}
	}
	exact := map[string]string{}
	for _, requirement := range selector.Requirements() {
		if value, found := selector.RequiresExactMatch(requirement.Field); found {
			exact[requirement.Field] = value
		}
	}
	return answer{Output: selector.String(), Matches: selector.Matches(fields.Set(q.Labels)), Exact: exact}
}

func askLabelSelector(q *question) answer {
	var result answer
	selector, err := metav1.LabelSelectorAsSelector(q.Selector)
	if err != nil {
		result.Error = err.Error()
	} else {
		result = describe(selector, q.Labels)
	}
	options := metavalidation.LabelSelectorValidationOptions{
		AllowInvalidLabelValueInSelector:  q.Options.InvalidLabelValue,
		AllowUnknownOperatorInRequirement: q.Options.UnknownOperator,
	}
	for _, problem := range metavalidation.ValidateLabelSelector(q.Selector, options, field.NewPath("spec", "selector")) {
		result.Errors = append(result.Errors, problem.Error())
	}
	result.Outdated = metavalidation.LabelSelectorHasInvalidLabelValue(q.Selector)
	return result
}

func askNames(name string) answer {
	return answer{Problems: map[string][]string{
		"qualified_name":      validation.IsQualifiedName(name),
		"label_value":         validation.IsValidLabelValue(name),
		"dns1123_label":       validation.IsDNS1123Label(name),
		"dns1123_subdomain":   validation.IsDNS1123Subdomain(name),
		"dns1035_label":       validation.IsDNS1035Label(name),
		"path_segment_name":   path.IsValidPathSegmentName(name),
		"path_segment_prefix": path.IsValidPathSegmentPrefix(name),
	}}
}
