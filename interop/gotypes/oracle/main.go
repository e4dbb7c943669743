// Decodes, encodes and patches objects as Kubernetes does, in JSON, YAML and protobuf: one JSON request per line in, one
// JSON response per line out, in order.
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

// The maximum length of a request line.
const lineBytesMax = 16 << 20

type oracleRequest struct {
	Op string `json:"op"`
	// The name of the type in OpenAPI.
	Type  string `json:"type"`
	Input string `json:"input"`
	Patch string `json:"patch"`
}

// Fields that do not apply to a request have their zero value, on both sides.
type oracleResponse struct {
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
		var q oracleRequest
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			fail("failed to decode a request", err)
		}
		t, found := types[q.Type]
		if !found {
			fail("failed to find a type", fmt.Errorf("%q is not listed in kinds.go", q.Type))
		}
		if err := encoder.Encode(respond(&q, t)); err != nil {
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

func respond(q *oracleRequest, t reflect.Type) oracleResponse {
	switch q.Op {
	case "json":
		return decode([]byte(q.Input), nil, t)
	case "yaml":
		converted, err := yaml.YAMLToJSON([]byte(q.Input))
		if err != nil {
			return oracleResponse{Error: err.Error()}
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
	return oracleResponse{Error: "unknown op " + q.Op}
}

// decode repeats the steps of upstream's serializer, except for the choice of the type.
func decode(data []byte, problems []string, t reflect.Type) oracleResponse {
	if _, err := metajson.DefaultMetaFactory.Interpret(data); err != nil {
		return oracleResponse{Error: err.Error()}
	}
	object := reflect.New(t).Interface()
	strict, err := kjson.UnmarshalStrict(data, object)
	if err != nil {
		return oracleResponse{Error: err.Error()}
	}
	for _, problem := range strict {
		problems = append(problems, problem.Error())
	}
	stored, err := throughStore(object.(message), t)
	if err != nil {
		return oracleResponse{Error: err.Error()}
	}
	output, err := json.Marshal(stored)
	if err != nil {
		return oracleResponse{Error: err.Error()}
	}
	return oracleResponse{Output: string(output), Problems: problems}
}

// throughStore encodes an object for the store and decodes it: protobuf does not distinguish an empty list from none.
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

// toProtobuf converts JSON to a protobuf message, in base64.
func toProtobuf(data []byte, t reflect.Type) oracleResponse {
	object := reflect.New(t).Interface()
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, object); err != nil {
		return oracleResponse{Error: err.Error()}
	}
	output, err := object.(message).Marshal()
	if err != nil {
		return oracleResponse{Error: err.Error()}
	}
	return oracleResponse{Output: base64.StdEncoding.EncodeToString(output)}
}

func fromProtobuf(input string, t reflect.Type) oracleResponse {
	data, err := base64.StdEncoding.DecodeString(input)
	if err != nil {
		fail("failed to decode base64", err)
	}
	object := reflect.New(t).Interface()
	if err := object.(message).Unmarshal(data); err != nil {
		return oracleResponse{Error: err.Error()}
	}
	output, err := json.Marshal(object)
	if err != nil {
		return oracleResponse{Error: err.Error()}
	}
	return oracleResponse{Output: string(output)}
}

func merge(q *oracleRequest, t reflect.Type) oracleResponse {
	original, patch := map[string]any{}, map[string]any{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(q.Input), &original); err != nil {
		fail("failed to decode an object", err)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(q.Patch), &patch); err != nil {
		fail("failed to decode a patch", err)
	}
	merged, err := strategicpatch.StrategicMergeMapPatch(original, patch, reflect.New(t).Interface())
	if err != nil {
		return oracleResponse{Error: err.Error()}
	}
	output, err := json.Marshal(merged)
	if err != nil {
		return oracleResponse{Error: err.Error()}
	}
	return oracleResponse{Output: string(output)}
}

// openAPIName returns io.k8s.api.core.v1.Pod for k8s.io/api/core/v1.Pod.
func openAPIName(t reflect.Type) string {
	domain, rest, _ := strings.Cut(t.PkgPath(), "/")
	labels := strings.Split(domain, ".")
	return labels[1] + "." + labels[0] + "." + strings.ReplaceAll(rest, "/", ".") + "." + t.Name()
}
