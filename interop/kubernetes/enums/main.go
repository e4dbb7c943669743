// Prints the enum values of fields in upstream's OpenAPI definitions, as one JSON object: type, field, values.
package main

import (
	"encoding/json"
	"log"
	"os"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// enumOf returns the enum values of a schema, of its items, or of its additional properties.
func enumOf(schema *spec.Schema) []any {
	switch {
	case len(schema.Enum) > 0:
		return schema.Enum
	case schema.Items != nil && schema.Items.Schema != nil:
		return enumOf(schema.Items.Schema)
	case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		return enumOf(schema.AdditionalProperties.Schema)
	default:
		return nil
	}
}

func main() {
	reference := func(name string) spec.Ref { return spec.MustCreateRef(name) }
	enums := map[string]map[string][]any{}
	var definitions map[string]common.OpenAPIDefinition = openapi.GetOpenAPIDefinitions(reference)
	for name, definition := range definitions {
		for field, schema := range definition.Schema.Properties {
			values := enumOf(&schema)
			if len(values) == 0 {
				continue
			}
			if enums[name] == nil {
				enums[name] = map[string][]any{}
			}
			enums[name][field] = values
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(enums); err != nil {
		log.Fatalf("failed to write the enums: %v", err)
	}
}
