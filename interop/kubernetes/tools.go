//go:build tools

// The API server and the command line that rhumb is compared with, built from their module.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
