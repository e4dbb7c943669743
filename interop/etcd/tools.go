//go:build tools

// Package tools pins the version of the etcd server for the tests of the store.
package tools

import _ "go.etcd.io/etcd/server/v3"
