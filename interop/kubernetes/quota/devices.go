package main

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	quota "k8s.io/apiserver/pkg/quota/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	clocktesting "k8s.io/utils/clock/testing"
)

// The device classes of every question, with their extended resources; the tests of the crate have the same.
var deviceClasses = [][2]string{
	{"gpu", "example.com/gpu"},
	{"net", ""},
	{"gpu.example.com", "example.com/other"},
}

// What claims may refer to.
type namespaceObjects struct {
	Pods   []*corev1.Pod                `json:"pods"`
	Claims []*resourceapi.ResourceClaim `json:"claims"`
}

func claimEvaluator(objects namespaceObjects) quota.Evaluator {
	classes := extendedresourcecache.NewExtendedResourceCache(klog.Background())
	for _, class := range deviceClasses {
		object := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: class[0]}}
		if class[1] != "" {
			object.Spec.ExtendedResourceName = &class[1]
		}
		classes.OnAdd(object, true)
	}
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, pod := range objects.Pods {
		check("cannot add pod", pods.Add(pod))
	}
	claimsOfPod := func(_ string, uid types.UID) ([]*resourceapi.ResourceClaim, error) {
		var found []*resourceapi.ResourceClaim
		for _, claim := range objects.Claims {
			owner := metav1.GetControllerOfNoCopy(claim)
			isGenerated := claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true"
			if isGenerated && owner != nil && owner.Kind == "Pod" && owner.APIVersion == "v1" && owner.UID == uid {
				found = append(found, claim)
			}
		}
		return found, nil
	}
	return core.NewResourceClaimEvaluator(nil, classes, corev1listers.NewPodLister(pods), claimsOfPod)
}

// Usage of devices and extended resources by all objects of a namespace, without zeros.
func deviceUsage(text json.RawMessage) corev1.ResourceList {
	var objects namespaceObjects
	check("cannot read objects", json.Unmarshal(text, &objects))
	total := corev1.ResourceList{}
	podEvaluator := core.NewPodEvaluator(nil, clocktesting.NewFakeClock(early))
	for _, pod := range objects.Pods {
		total = quota.Add(total, usage(podEvaluator, pod.DeepCopy()))
	}
	claims := claimEvaluator(objects)
	for _, claim := range objects.Claims {
		total = quota.Add(total, usage(claims, claim))
	}
	for name := range total {
		isDevices := strings.HasSuffix(string(name), corev1.ResourceClaimsPerClass)
		isExtended := strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) && strings.Contains(string(name), "/")
		if !isDevices && !isExtended {
			delete(total, name)
		}
	}
	return quota.RemoveZeros(total)
}
