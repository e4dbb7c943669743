// Evaluates the quota usage of objects with upstream's evaluators: one JSON request per line in, one JSON response per line
// out, in order.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	clocktesting "k8s.io/utils/clock/testing"
)

const lineBytesMax = 16 << 20

type question struct {
	Resource string          `json:"resource"`
	Object   json.RawMessage `json:"object"`
	// The object before an update, and the updated subresource.
	Old         json.RawMessage `json:"old"`
	Subresource string          `json:"subresource"`
	// The scopes to match.
	Scopes []corev1.ScopedResourceSelectorRequirement `json:"scopes"`
	// The resource names that quotas limit.
	Names []corev1.ResourceName `json:"names"`
}

type answer struct {
	// The usage now, and after all deadlines of the object.
	Usage corev1.ResourceList `json:"usage"`
	Later corev1.ResourceList `json:"later"`
	// One letter per scope: y or n.
	Scopes  string                `json:"scopes"`
	Covered []corev1.ResourceName `json:"covered"`
	Missing string                `json:"missing"`
	Minds   bool                  `json:"minds"`
}

var (
	early = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	late  = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
)

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<16), lineBytesMax)
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for in.Scan() {
		var q question
		check("cannot read question", json.Unmarshal(in.Bytes(), &q))
		check("cannot write answer", encoder.Encode(reply(&q)))
	}
	check("cannot read questions", in.Err())
	check("cannot write answers", out.Flush())
}

func check(what string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", what, err)
		os.Exit(1)
	}
}

func reply(q *question) answer {
	if q.Resource == "namespaces" {
		return answer{Usage: deviceUsage(q.Object), Later: corev1.ResourceList{}}
	}
	evaluator, object := read(q.Resource, q.Object, early)
	a := answer{Usage: usage(evaluator, object)}
	// Another copy, because to measure a pod may change large or small amounts in it.
	a.Later = usage(read(q.Resource, q.Object, late))
	for _, scope := range q.Scopes {
		matched, err := evaluator.MatchingScopes(object, []corev1.ScopedResourceSelectorRequirement{scope})
		check("cannot match scope", err)
		a.Scopes += map[bool]string{true: "y", false: "n"}[len(matched) > 0]
	}
	a.Covered = quota.Intersection(q.Names, evaluator.MatchingResources(q.Names))
	slices.Sort(a.Covered)
	if err := evaluator.Constraints(q.Names, object); err != nil {
		a.Missing = err.Error()
	}
	if len(q.Old) > 0 {
		_, old := read(q.Resource, q.Old, early)
		update := admission.NewAttributesRecord(
			object, old, schema.GroupVersionKind{}, "", "", schema.GroupVersionResource{},
			q.Subresource, admission.Update, nil, false, nil)
		a.Minds = evaluator.Handles(update)
	}
	return a
}

func read(resource string, text json.RawMessage, now time.Time) (quota.Evaluator, runtime.Object) {
	evaluator, object := evaluatorOf(resource, now)
	check("cannot read object", json.Unmarshal(text, object))
	return evaluator, object
}

func evaluatorOf(resource string, now time.Time) (quota.Evaluator, runtime.Object) {
	switch resource {
	case "pods":
		return core.NewPodEvaluator(nil, clocktesting.NewFakeClock(now)), &corev1.Pod{}
	case "services":
		return core.NewServiceEvaluator(nil), &corev1.Service{}
	case "persistentvolumeclaims":
		return core.NewPersistentVolumeClaimEvaluator(nil), &corev1.PersistentVolumeClaim{}
	case "resourceclaims":
		return claimEvaluator(namespaceObjects{}), &resourceapi.ResourceClaim{}
	}
	check("cannot answer", fmt.Errorf("unknown resource %q", resource))
	return nil, nil
}

// usage returns the usage of the resources that a quota can limit.
func usage(evaluator quota.Evaluator, object runtime.Object) corev1.ResourceList {
	used, err := evaluator.Usage(object)
	check("cannot measure", err)
	return quota.Mask(used, evaluator.MatchingResources(quota.ResourceNames(used)))
}
