package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/mutation"
)

type activation struct {
	inputs          map[string]any
	authorizer      any
	requestResource any
	variables       any
}

func newActivation(request *oracleRequest) *activation {
	requestUser := &user.DefaultInfo{Name: "ada", Groups: []string{"system:authenticated"}}
	rules := tableAuthorizer(request.Authorizer)
	return &activation{
		inputs:          request.Inputs,
		authorizer:      library.NewAuthorizerVal(requestUser, rules),
		requestResource: library.NewResourceAuthorizerVal(requestUser, rules, requestResource{}),
	}
}

func (a *activation) ResolveName(name string) (any, bool) {
	switch name {
	case "authorizer":
		return a.authorizer, true
	case "authorizer.requestResource":
		return a.requestResource, true
	case "variables":
		return a.variables, true
	case "object", "oldObject", "params", "request", "namespaceObject":
		return a.inputs[name], true
	}
	return nil, false
}

func (a *activation) Parent() interpreter.Activation { return nil }

type requestResource struct{}

func (requestResource) GetName() string      { return "web" }
func (requestResource) GetNamespace() string { return "shop" }
func (requestResource) GetResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
}
func (requestResource) GetSubresource() string { return "" }

// tableAuthorizer maps an authorization check, as one line, to "allow", "deny" or an error. It has no opinion on other
// checks.
type tableAuthorizer map[string]string

func (r tableAuthorizer) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	line := fmt.Sprintf("%s %s %s", a.GetUser().GetName(), a.GetVerb(), a.GetPath())
	if a.IsResourceRequest() {
		line = fmt.Sprintf("%s %s %s/%s/%s %s/%s", a.GetUser().GetName(), a.GetVerb(), a.GetAPIGroup(),
			a.GetResource(), a.GetSubresource(), a.GetNamespace(), a.GetName())
		if fields, err := a.GetFieldSelector(); err != nil || len(fields) > 0 {
			line += fmt.Sprintf(" fields %d %v", len(fields), err != nil)
		}
		if labels, err := a.GetLabelSelector(); err != nil || len(labels) > 0 {
			line += fmt.Sprintf(" labels %d %v", len(labels), err != nil)
		}
	}
	switch decision := r[line]; decision {
	case "allow":
		return authorizer.DecisionAllow, "allowed by the table", nil
	case "deny":
		return authorizer.DecisionDeny, "denied by the table", nil
	case "":
		return authorizer.DecisionNoOpinion, "not in the table: " + line, nil
	default:
		return authorizer.DecisionNoOpinion, "", errors.New(decision)
	}
}

// toConformanceJSON converts a value to JSON that preserves its CEL type.
func toConformanceJSON(value ref.Val) any {
	tagged := func(tag string, v any) any { return map[string]any{tag: v} }
	switch v := value.(type) {
	case types.Null:
		return nil
	case types.Bool:
		return bool(v)
	case types.Int:
		return tagged("int", fmt.Sprint(int64(v)))
	case types.Uint:
		return tagged("uint", fmt.Sprint(uint64(v)))
	case types.Double:
		return tagged("double", fmt.Sprint(float64(v)))
	case types.String:
		return string(v)
	case types.Bytes:
		return tagged("bytes", fmt.Sprintf("%x", []byte(v)))
	case types.Timestamp:
		return tagged("timestamp", v.Time.UTC().Format(time.RFC3339Nano))
	case types.Duration:
		return tagged("duration", v.Duration.Nanoseconds())
	case *types.Optional:
		if !v.HasValue() {
			return tagged("optional", []any{})
		}
		return tagged("optional", []any{toConformanceJSON(v.GetValue())})
	case *types.Type:
		return tagged("type", v.TypeName())
	case *mutation.JSONPatchVal:
		fields := map[string]any{"op": v.Op, "from": v.From, "path": v.Path}
		if v.Val != nil {
			fields["value"] = toConformanceJSON(v.Val)
		}
		return tagged("patch", fields)
	case traits.Lister:
		items := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			items = append(items, toConformanceJSON(it.Next()))
		}
		return tagged("list", items)
	case traits.Mapper:
		entries := [][]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			entries = append(entries, []any{toConformanceJSON(key), toConformanceJSON(v.Get(key))})
		}
		sort.Slice(entries, func(i, j int) bool { return fmt.Sprint(entries[i]) < fmt.Sprint(entries[j]) })
		return tagged("map", entries)
	}
	if native, ok := value.Value().(map[string]any); ok {
		return tagged("object", native)
	}
	return tagged("other", value.Type().TypeName())
}
