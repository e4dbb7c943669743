//go:build tools

// The etcd server that the store's tests run on, built from its module.
package tools

import _ "go.etcd.io/etcd/server/v3"
