package main

import (
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
)

// writeDeclarations writes the overloads of all functions, one per line, in the order in which the checker tries them.
// The crate keeps this table as declarations.table.
func writeDeclarations(out io.Writer, env *cel.Env) {
	functions := env.Functions()
	names := make([]string, 0, len(functions))
	for name := range functions {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		for _, overload := range functions[name].OverloadDecls() {
			style := "global"
			if overload.IsMemberFunction() {
				style = "member"
			}
			arguments := make([]string, 0, len(overload.ArgTypes()))
			for _, argument := range overload.ArgTypes() {
				arguments = append(arguments, checker.FormatCELType(argument))
			}
			fmt.Fprintf(out, "%s %s %s (%s) %s\n", name, overload.ID(), style,
				strings.Join(arguments, ", "), checker.FormatCELType(overload.ResultType()))
		}
	}
}
