//! Descriptions of types and fields: upstream's, from the k8s-openapi crate, and rhumb's own.

use k8s_openapi::schemars::SchemaGenerator;
use serde_json::{Map, Value, json};

use crate::rhumb_descriptions;

/// The JSON schemas of all upstream types, by type name, for their descriptions.
#[derive(Debug)]
pub(crate) struct TypeDescriptions {
    types: Map<String, Value>,
}

/// A kind from which the descriptions of the common fields are taken.
const SAMPLE_KIND: &str = "io.k8s.api.core.v1.Pod";
const COMMON_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Generates the schemas of types, one module at a time.
macro_rules! generate {
    ($generator:ident, $($($module:ident)::+ { $($name:ident),+ })+) => {
        $({
            use k8s_openapi::$($module)::+ as types;
            $($generator.subschema_for::<types::$name>();)+
        })+
    };
}

impl TypeDescriptions {
    /// Generates the schemas of all served types, about 500 with their nested types.
    pub(crate) fn collect() -> TypeDescriptions {
        let mut generator = SchemaGenerator::default();
        generate_all(&mut generator);
        TypeDescriptions {
            types: generator.take_definitions(true),
        }
    }

    pub(crate) fn of_type(&self, name: &str) -> Option<&str> {
        let description = self
            .types
            .get(name)
            .and_then(|known| known.get("description"));
        description.map_or_else(|| rhumb_descriptions::of_type(name), Value::as_str)
    }

    /// The schema of a type that is missing in the table; an object with any fields if it is unknown.
    pub(crate) fn definition(&self, name: &str) -> Value {
        let unknown = || json!({ "type": "object" });
        self.types.get(name).cloned().unwrap_or_else(unknown)
    }

    pub(crate) fn of_field(&self, owner: &str, field: &str) -> Option<&str> {
        let description = self
            .upstream_field_description(owner, field)
            .or_else(|| rhumb_descriptions::of_field(owner, field));
        let is_common = || COMMON_FIELDS.contains(&field) && !self.types.contains_key(owner);
        description.or_else(|| {
            self.upstream_field_description(SAMPLE_KIND, field)
                .filter(|_| is_common())
        })
    }

    fn upstream_field_description(&self, owner: &str, field: &str) -> Option<&str> {
        let properties = self.types.get(owner)?.get("properties")?;
        properties.get(field)?.get("description")?.as_str()
    }

    /// The description of `apiVersion`.
    pub(crate) fn api_version(&self) -> &str {
        self.upstream_field_description(SAMPLE_KIND, "apiVersion")
            .unwrap_or_default()
    }

    /// The description of `kind`.
    pub(crate) fn kind(&self) -> &str {
        self.upstream_field_description(SAMPLE_KIND, "kind")
            .unwrap_or_default()
    }
}

/// Adds the served types; the generator adds their nested types.
fn generate_all(generator: &mut SchemaGenerator) {
    generate! {
        generator,
    api::admissionregistration::v1 {
        MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration
    }
    api::apps::v1 {
        ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet
    }
    api::authentication::v1 {
        SelfSubjectReview, TokenRequest, TokenReview
    }
    api::authorization::v1 {
        LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview
    }
    api::autoscaling::v1 {
        HorizontalPodAutoscaler, Scale
    }
    api::autoscaling::v2 {
        HorizontalPodAutoscaler
    }
    api::batch::v1 {
        CronJob, Job
    }
    api::certificates::v1 {
        CertificateSigningRequest
    }
    api::coordination::v1 {
        Lease
    }
    api::core::v1 {
        Binding, ComponentStatus, ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount
    }
    api::discovery::v1 {
        EndpointSlice
    }
    api::events::v1 {
        Event
    }
    api::flowcontrol::v1 {
        FlowSchema, PriorityLevelConfiguration
    }
    api::networking::v1 {
        IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR
    }
    api::node::v1 {
        RuntimeClass
    }
    api::policy::v1 {
        Eviction, PodDisruptionBudget
    }
    api::rbac::v1 {
        ClusterRole, ClusterRoleBinding, Role, RoleBinding
    }
    api::resource::v1 {
        DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
    }
    api::scheduling::v1 {
        PriorityClass
    }
    api::storage::v1 {
        CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass
    }
    apiextensions_apiserver::pkg::apis::apiextensions::v1 {
        CustomResourceDefinition
    }
    apimachinery::pkg::apis::meta::v1 {
        APIGroup, APIGroupList, APIResourceList, APIVersions, DeleteOptions, ListMeta, Patch, Status
    }
    apimachinery::pkg::version {
        Info
    }
    kube_aggregator::pkg::apis::apiregistration::v1 {
        APIService
    }
    }
}
