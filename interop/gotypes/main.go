// Prints the facts about the API types that OpenAPI does not have, one JSON object per type: pointers, omitempty, embedding,
// protobuf field numbers, patch tags and names of types.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"

	"rhumb.test/gotypes/kinds"
)

// A type with fields. Name is the name in OpenAPI, Go the name in the error messages of encoding/json.
type typeFacts struct {
	Name   string       `json:"name"`
	Go     string       `json:"go"`
	Fields []fieldFacts `json:"fields"`
}

type fieldFacts struct {
	Name          string      `json:"name"`
	Go            string      `json:"go"`
	Shape         shape       `json:"shape"`
	Pointer       bool        `json:"pointer,omitempty"`
	OmitEmpty     bool        `json:"omitempty,omitempty"`
	OmitZero      bool        `json:"omitzero,omitempty"`
	Number        int         `json:"number,omitempty"`
	Embedded      []embedding `json:"embedded,omitempty"`
	PatchStrategy string      `json:"patchStrategy,omitempty"`
	PatchMergeKey string      `json:"patchMergeKey,omitempty"`
}

// A struct from which a field is promoted, and its protobuf field number.
type embedding struct {
	Go     string `json:"go"`
	Number int    `json:"number,omitempty"`
}

// Exactly one field is set.
type shape struct {
	Plain  string `json:"plain,omitempty"`
	Object string `json:"object,omitempty"`
	List   *shape `json:"list,omitempty"`
	Map    *shape `json:"map,omitempty"`
}

// Types with a JSON encoding of their own.
var special = map[string]string{
	"resource.Quantity":               "quantity",
	"intstr.IntOrString":              "intorstring",
	"v1.Time":                         "time",
	"v1.MicroTime":                    "microtime",
	"v1.Duration":                     "duration",
	"v1.FieldsV1":                     "any",
	"runtime.RawExtension":            "any",
	"v1.JSON":                         "any",
	"v1.JSONSchemaPropsOrBool":        "orbool",
	"v1.JSONSchemaPropsOrArray":       "orlist",
	"v1.JSONSchemaPropsOrStringArray": "orstrings",
}

type walker struct {
	seen  map[reflect.Type]bool
	types []typeFacts
}

func main() {
	w := &walker{seen: map[reflect.Type]bool{}}
	for _, kind := range kinds.All {
		w.walk(reflect.TypeOf(kind))
	}
	encoder := json.NewEncoder(os.Stdout)
	for i := range w.types {
		if err := encoder.Encode(&w.types[i]); err != nil {
			fmt.Fprintf(os.Stderr, "failed to write the types: %v\n", err)
			os.Exit(1)
		}
	}
}

func (w *walker) walk(t reflect.Type) {
	if w.seen[t] {
		return
	}
	w.seen[t] = true
	facts := typeFacts{Name: openAPIName(t), Go: t.String(), Fields: []fieldFacts{}}
	w.fields(t, nil, &facts)
	w.types = append(w.types, facts)
}

func (w *walker) fields(t reflect.Type, embedded []embedding, facts *typeFacts) {
	for i := range t.NumField() {
		field := t.Field(i)
		tag, tagged := field.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		if name == "-" || (!field.IsExported() && !field.Anonymous) {
			continue
		}
		if field.Anonymous && name == "" {
			inner := append(append([]embedding{}, embedded...), embedding{Go: field.Name, Number: number(field)})
			w.fields(field.Type, inner, facts)
			continue
		}
		if !tagged {
			fail("a field has no json tag", t, field.Name)
		}
		target := field.Type
		pointer := target.Kind() == reflect.Pointer
		if pointer {
			target = target.Elem()
		}
		facts.Fields = append(facts.Fields, fieldFacts{
			Name:          name,
			Go:            target.String(),
			Shape:         w.shape(target),
			Pointer:       pointer,
			OmitEmpty:     has(options, "omitempty"),
			OmitZero:      has(options, "omitzero"),
			Number:        number(field),
			Embedded:      embedded,
			PatchStrategy: field.Tag.Get("patchStrategy"),
			PatchMergeKey: field.Tag.Get("patchMergeKey"),
		})
	}
}

func (w *walker) shape(t reflect.Type) shape {
	if name, found := special[t.String()]; found && isMachinery(t) {
		if strings.HasPrefix(name, "or") {
			w.walk(t.Field(fieldOfSchema(t)).Type.Elem())
		}
		return shape{Plain: name}
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float64:
		return shape{Plain: t.Kind().String()}
	case reflect.Interface:
		return shape{Plain: "any"}
	case reflect.Pointer:
		return w.shape(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return shape{Plain: "bytes"}
		}
		items := w.shape(t.Elem())
		return shape{List: &items}
	case reflect.Map:
		values := w.shape(t.Elem())
		return shape{Map: &values}
	case reflect.Struct:
		w.walk(t)
		return shape{Object: openAPIName(t)}
	}
	fail("the kind of a type is not supported", t, t.Kind().String())
	return shape{}
}

// Names such as v1.JSON are special only in the packages that define them.
func isMachinery(t reflect.Type) bool {
	return strings.HasPrefix(t.PkgPath(), "k8s.io/apimachinery/") || strings.HasPrefix(t.PkgPath(), "k8s.io/apiextensions-apiserver/")
}

func fieldOfSchema(t reflect.Type) int {
	for i := range t.NumField() {
		if t.Field(i).Name == "Schema" {
			return i
		}
	}
	fail("a type has no field Schema", t, "")
	return 0
}

func number(field reflect.StructField) int {
	parts := strings.Split(field.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return 0
	}
	number, err := strconv.Atoi(parts[1])
	if err != nil {
		fail("a protobuf tag is invalid", field.Type, err.Error())
	}
	return number
}

func has(options, name string) bool {
	for _, option := range strings.Split(options, ",") {
		if option == name {
			return true
		}
	}
	return false
}

// openAPIName returns io.k8s.api.core.v1.Pod for k8s.io/api/core/v1.Pod.
func openAPIName(t reflect.Type) string {
	domain, rest, _ := strings.Cut(t.PkgPath(), "/")
	labels := strings.Split(domain, ".")
	for i, j := 0, len(labels)-1; i < j; i, j = i+1, j-1 {
		labels[i], labels[j] = labels[j], labels[i]
	}
	return strings.Join(labels, ".") + "." + strings.ReplaceAll(rest, "/", ".") + "." + t.Name()
}

func fail(problem string, t reflect.Type, detail string) {
	fmt.Fprintf(os.Stderr, "%s: %s.%s: %s\n", problem, t.PkgPath(), t.Name(), detail)
	os.Exit(1)
}
