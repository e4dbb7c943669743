// Compiles and evaluates expressions as kube-apiserver's admission does: one request per line in, one response per
// line out, in order. With the argument "declarations" it writes the table of function declarations instead.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/json"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// The maximum length of a request line.
const lineBytesMax = 16 << 20

type oracleRequest struct {
	Expression string            `json:"expression"`
	Want       string            `json:"want"`
	Params     bool              `json:"params"`
	Patches    bool              `json:"patches"`
	Variables  []variable        `json:"variables"`
	Inputs     map[string]any    `json:"inputs"`
	Authorizer map[string]string `json:"authorizer"`
}

type variable struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

// oracleResponse has one of a compile error, an evaluation error, and a value; the other fields are empty.
type oracleResponse struct {
	Compile string `json:"compile"`
	Error   string `json:"error"`
	Value   any    `json:"value"`
	Type    string `json:"type"`
	Cost    uint64 `json:"cost"`
}

type accessor struct {
	name, expression string
	types            []*cel.Type
}

func (a *accessor) GetExpression() string    { return a.expression }
func (a *accessor) GetName() string          { return a.name }
func (a *accessor) ReturnTypes() []*cel.Type { return a.types }

func returnTypes(want string) []*cel.Type {
	switch want {
	case "bool":
		return []*cel.Type{cel.BoolType}
	case "string":
		return []*cel.Type{cel.StringType}
	case "string or null":
		return []*cel.Type{cel.StringType, cel.NullType}
	case "object":
		return []*cel.Type{cel.ObjectType("Object")}
	case "patches":
		return []*cel.Type{cel.ListType(cel.ObjectType("JSONPatch"))}
	}
	return []*cel.Type{cel.AnyType}
}

func main() {
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	if len(os.Args) > 1 && os.Args[1] == "declarations" {
		env, err := base.Env(environment.StoredExpressions)
		if err != nil {
			fail("failed to build the environment", err)
		}
		writeDeclarations(os.Stdout, env)
		return
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<16), lineBytesMax)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for in.Scan() {
		var request oracleRequest
		if err := json.Unmarshal(in.Bytes(), &request); err != nil {
			fail("failed to decode a request", err)
		}
		line, err := json.Marshal(evaluate(base, &request))
		if err != nil {
			fail("failed to encode the result of "+request.Expression, err)
		}
		out.Write(line)
		out.WriteByte('\n')
	}
	if err := in.Err(); err != nil {
		fail("failed to read requests", err)
	}
}

func fail(action string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %v\n", action, err)
	os.Exit(1)
}

func evaluate(base *environment.EnvSet, request *oracleRequest) oracleResponse {
	compiler, err := plugincel.NewCompositedCompiler(base)
	if err != nil {
		fail("failed to create a compiler", err)
	}
	options := plugincel.OptionalVariableDeclarations{HasParams: request.Params, HasAuthorizer: true, HasPatchTypes: request.Patches}
	for _, v := range request.Variables {
		compiler.CompileAndStoreVariable(&accessor{v.Name, v.Expression, returnTypes("")}, options, environment.StoredExpressions)
	}
	compiled := compiler.CompileCELExpression(&accessor{"", request.Expression, returnTypes(request.Want)}, options, environment.StoredExpressions)
	if compiled.Error != nil {
		return oracleResponse{Compile: compiled.Error.Error()}
	}
	ctx := compiler.CreateContext(context.Background())
	vars := newActivation(request)
	vars.variables = ctx.Variables(vars)
	value, details, err := compiled.Program.ContextEval(ctx, vars)
	result := oracleResponse{Type: compiled.OutputType.String()}
	if details != nil && details.ActualCost() != nil {
		result.Cost = *details.ActualCost() + uint64(ctx.GetAndResetCost())
	}
	if err != nil {
		result.Error = err.Error()
		return result
	}
	result.Value = toConformanceJSON(value)
	return result
}
