// Answers how Kubernetes reads, writes back and patches objects, in JSON and protobuf: one JSON object a line in, one a line out, in order.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	metajson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"rhumb.test/gotypes/kinds"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const lineBytesMax = 16 << 20

type question struct {
	Op string `json:"op"`
	// A type, as OpenAPI names it.
	Type  string `json:"type"`
	Input string `json:"input"`
	Patch string `json:"patch"`
}

// Fields that do not apply to a question stay at their zero value, on both sides.
type answer struct {
	Output   string   `json:"output"`
	Error    string   `json:"error"`
	Problems []string `json:"problems"`
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<16), lineBytesMax)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	types := map[string]reflect.Type{}
	for _, kind := range append(slices.Clone(kinds.All), kinds.ConnectOptions...) {
		types[openAPIName(reflect.TypeOf(kind))] = reflect.TypeOf(kind)
	}
	for in.Scan() {
		var q question
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			fail("cannot read question", err)
		}
		t, found := types[q.Type]
		if !found {
			fail("unknown type", fmt.Errorf("%s", q.Type))
		}
		if err := encoder.Encode(reply(&q, t)); err != nil {
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

func reply(q *question, t reflect.Type) answer {
	switch q.Op {
	case "json":
		return decode([]byte(q.Input), nil, t)
	case "yaml":
		converted, err := yaml.YAMLToJSON([]byte(q.Input))
		if err != nil {
			return answer{Error: err.Error()}
		}
		var problems []string
		if _, err := yaml.YAMLToJSONStrict([]byte(q.Input)); err != nil {
			problems = append(problems, err.Error())
		}
		return decode(converted, problems, t)
	case "merge":
		return merge(q, t)
	case "to-protobuf":
		return toProtobuf([]byte(q.Input), t)
	case "from-protobuf":
		return fromProtobuf(q.Input, t)
	}
	return answer{Error: "unknown op " + q.Op}
}

// The steps of upstream's serializer, but for the choice of the type.
func decode(data []byte, problems []string, t reflect.Type) answer {
	if _, err := metajson.DefaultMetaFactory.Interpret(data); err != nil {
		return answer{Error: err.Error()}
	}
	object := reflect.New(t).Interface()
	strict, err := kjson.UnmarshalStrict(data, object)
	if err != nil {
		return answer{Error: err.Error()}
	}
	for _, problem := range strict {
		problems = append(problems, problem.Error())
	}
	stored, err := throughStore(object.(message), t)
	if err != nil {
		return answer{Error: err.Error()}
	}
	output, err := json.Marshal(stored)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Output: string(output), Problems: problems}
}

// Clients see objects as they come back from the store, which does not tell an empty list from none.
func throughStore(object message, t reflect.Type) (any, error) {
	data, err := object.Marshal()
	if err != nil {
		return nil, err
	}
	stored := reflect.New(t).Interface()
	return stored, stored.(message).Unmarshal(data)
}

type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// From JSON to the bytes of a message, in base64.
func toProtobuf(data []byte, t reflect.Type) answer {
	object := reflect.New(t).Interface()
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, object); err != nil {
		return answer{Error: err.Error()}
	}
	output, err := object.(message).Marshal()
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Output: base64.StdEncoding.EncodeToString(output)}
}

func fromProtobuf(input string, t reflect.Type) answer {
	data, err := base64.StdEncoding.DecodeString(input)
	if err != nil {
		fail("cannot read base64", err)
	}
	object := reflect.New(t).Interface()
	if err := object.(message).Unmarshal(data); err != nil {
		return answer{Error: err.Error()}
	}
	output, err := json.Marshal(object)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Output: string(output)}
}

func merge(q *question, t reflect.Type) answer {
	original, patch := map[string]any{}, map[string]any{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(q.Input), &original); err != nil {
		fail("cannot read object", err)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(q.Patch), &patch); err != nil {
		fail("cannot read patch", err)
	}
	merged, err := strategicpatch.StrategicMergeMapPatch(original, patch, reflect.New(t).Interface())
	if err != nil {
		return answer{Error: err.Error()}
	}
	output, err := json.Marshal(merged)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Output: string(output)}
}

// k8s.io/api/core/v1.Pod is io.k8s.api.core.v1.Pod.
func openAPIName(t reflect.Type) string {
	domain, rest, _ := strings.Cut(t.PkgPath(), "/")
	labels := strings.Split(domain, ".")
	return labels[1] + "." + labels[0] + "." + strings.ReplaceAll(rest, "/", ".") + "." + t.Name()
}
