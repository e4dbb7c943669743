// Package kinds lists the types that rhumb serves, accepts and responds with.
package kinds

import (
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	aggregatorv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// ConnectOptions are the options of CONNECT requests, which OpenAPI does not describe.
var ConnectOptions = []any{
	corev1.NodeProxyOptions{},
	corev1.PodAttachOptions{},
	corev1.PodExecOptions{},
	corev1.PodPortForwardOptions{},
	corev1.PodProxyOptions{},
	corev1.ServiceProxyOptions{},
}

// All lists the types of request and response bodies, without lists.
var All = []any{
	admissionv1.AdmissionReview{},
	admissionregistrationv1.MutatingAdmissionPolicy{},
	admissionregistrationv1.MutatingAdmissionPolicyBinding{},
	admissionregistrationv1.MutatingWebhookConfiguration{},
	admissionregistrationv1.ValidatingAdmissionPolicy{},
	admissionregistrationv1.ValidatingAdmissionPolicyBinding{},
	admissionregistrationv1.ValidatingWebhookConfiguration{},
	appsv1.ControllerRevision{},
	appsv1.DaemonSet{},
	appsv1.Deployment{},
	appsv1.ReplicaSet{},
	appsv1.StatefulSet{},
	authenticationv1.SelfSubjectReview{},
	authenticationv1.TokenRequest{},
	authenticationv1.TokenReview{},
	authorizationv1.LocalSubjectAccessReview{},
	authorizationv1.SelfSubjectAccessReview{},
	authorizationv1.SelfSubjectRulesReview{},
	authorizationv1.SubjectAccessReview{},
	autoscalingv1.HorizontalPodAutoscaler{},
	autoscalingv1.Scale{},
	autoscalingv2.HorizontalPodAutoscaler{},
	batchv1.CronJob{},
	batchv1.Job{},
	certificatesv1.CertificateSigningRequest{},
	coordinationv1.Lease{},
	corev1.Binding{},
	corev1.ComponentStatus{},
	corev1.ConfigMap{},
	corev1.Endpoints{},
	corev1.Event{},
	corev1.LimitRange{},
	corev1.Namespace{},
	corev1.Node{},
	corev1.PersistentVolume{},
	corev1.PersistentVolumeClaim{},
	corev1.Pod{},
	corev1.PodStatusResult{},
	corev1.PodTemplate{},
	corev1.RangeAllocation{},
	corev1.ReplicationController{},
	corev1.ResourceQuota{},
	corev1.Secret{},
	corev1.SerializedReference{},
	corev1.Service{},
	corev1.ServiceAccount{},
	discoveryv1.EndpointSlice{},
	eventsv1.Event{},
	flowcontrolv1.FlowSchema{},
	flowcontrolv1.PriorityLevelConfiguration{},
	networkingv1.IPAddress{},
	networkingv1.Ingress{},
	networkingv1.IngressClass{},
	networkingv1.NetworkPolicy{},
	networkingv1.ServiceCIDR{},
	nodev1.RuntimeClass{},
	policyv1.Eviction{},
	policyv1.PodDisruptionBudget{},
	rbacv1.ClusterRole{},
	rbacv1.ClusterRoleBinding{},
	rbacv1.Role{},
	rbacv1.RoleBinding{},
	resourcev1.DeviceClass{},
	resourcev1.ResourceClaim{},
	resourcev1.ResourceClaimTemplate{},
	resourcev1.ResourceSlice{},
	schedulingv1.PriorityClass{},
	storagev1.CSIDriver{},
	storagev1.CSINode{},
	storagev1.CSIStorageCapacity{},
	storagev1.StorageClass{},
	storagev1.VolumeAttachment{},
	storagev1.VolumeAttributesClass{},
	extv1.CustomResourceDefinition{},
	metav1.APIGroup{},
	metav1.APIGroupList{},
	metav1.APIResourceList{},
	metav1.APIVersions{},
	metav1.CreateOptions{},
	metav1.DeleteOptions{},
	metav1.GetOptions{},
	metav1.ListMeta{},
	metav1.ListOptions{},
	metav1.PartialObjectMetadata{},
	metav1.PatchOptions{},
	metav1.Status{},
	metav1.Table{},
	metav1.UpdateOptions{},
	metav1.WatchEvent{},
	aggregatorv1.APIService{},
}
