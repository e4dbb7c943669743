//! Properties of the documents that clients rely on.

use std::collections::BTreeSet;

use rhumb_api::{Kind, ResourceScope, kinds};
use rhumb_schema::Table;
use serde_json::{Value, json};

use crate::{CustomSchemas, OpenApiBuilder};

fn v3(name: &str) -> Value {
    let kinds = kinds::all();
    let api = OpenApiBuilder::new(&kinds, Table::builtin());
    serde_json::from_slice(&api.v3(name).unwrap()).unwrap()
}

pub(crate) fn v2() -> Value {
    let kinds = kinds::all();
    serde_json::from_slice(&OpenApiBuilder::new(&kinds, Table::builtin()).v2_json()).unwrap()
}

fn names() -> Vec<String> {
    let kinds = kinds::all();
    let index = OpenApiBuilder::new(&kinds, Table::builtin()).v3_index();
    index["paths"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect()
}

/// Collects all string values of fields with this name, at any depth.
fn collect_strings<'a>(json: &'a Value, name: &str, found: &mut Vec<&'a str>) {
    match json {
        Value::Object(object) => {
            for (key, value) in object {
                match value {
                    Value::String(text) if key == name => found.push(text),
                    _ => collect_strings(value, name, found),
                }
            }
        }
        Value::Array(items) => items
            .iter()
            .for_each(|item| collect_strings(item, name, found)),
        _ => {}
    }
}

#[test]
fn groups_have_as_many_paths_as_upstream() {
    for (name, paths) in [
        ("api/v1", 113),
        ("apis/apps/v1", 38),
        ("apis/batch/v1", 15),
        ("apis/authorization.k8s.io/v1", 5),
        ("apis/storage.k8s.io/v1", 28),
        ("apis/apps", 1),
        ("version", 1),
    ] {
        assert_eq!(
            v3(name)["paths"].as_object().unwrap().len(),
            paths,
            "{name}"
        );
    }
}

#[test]
fn every_reference_resolves() {
    let documents: Vec<Value> = names().iter().map(|name| v3(name)).chain([v2()]).collect();
    for document in documents {
        let mut references = Vec::new();
        collect_strings(&document, "$ref", &mut references);
        for reference in references {
            let pointer = reference.trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }
}

#[test]
fn every_operation_has_its_own_id() {
    let document = v2();
    let mut ids = Vec::new();
    collect_strings(&document, "operationId", &mut ids);
    let distinct: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), distinct.len());
    for id in [
        "createCoreV1NamespacedPod",
        "listCoreV1PodForAllNamespaces",
        "deleteAppsV1CollectionNamespacedDeployment",
        "patchAppsV1NamespacedDeploymentScale",
        "watchRbacAuthorizationV1ClusterRoleList",
        "connectCoreV1GetNodeProxyWithPath",
        "createCoreV1NamespacedServiceAccountToken",
        "getStorageV1APIResources",
    ] {
        assert!(distinct.contains(id), "{id}");
    }
}

#[test]
fn pod_schema_supports_kubectl_explain() {
    let document = v3("api/v1");
    let schemas = &document["components"]["schemas"];
    let pod = &schemas["io.k8s.api.core.v1.Pod"];
    assert_eq!(
        pod["x-kubernetes-group-version-kind"],
        json!([{ "group": "", "kind": "Pod", "version": "v1" }])
    );
    assert!(pod["description"].as_str().unwrap().starts_with("Pod is"));
    assert_eq!(
        pod["properties"]["spec"]["allOf"][0]["$ref"],
        "#/components/schemas/io.k8s.api.core.v1.PodSpec"
    );
    let spec = &schemas["io.k8s.api.core.v1.PodSpec"];
    assert_eq!(spec["required"], json!(["containers"]));
    let volumes = &spec["properties"]["volumes"];
    assert_eq!(volumes["type"], "array");
    assert_eq!(volumes["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(volumes["x-kubernetes-patch-strategy"], "merge,retainKeys");
    let port = &schemas["io.k8s.api.core.v1.ContainerPort"]["properties"];
    assert_eq!(port["protocol"]["default"], "TCP");
    assert_eq!(port["containerPort"]["format"], "int32");
    let limits = &schemas["io.k8s.api.core.v1.ResourceRequirements"]["properties"]["limits"];
    assert_eq!(
        limits["additionalProperties"]["$ref"],
        "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"
    );
}

#[test]
fn almost_every_field_has_a_description() {
    let document = v2();
    let mut without = Vec::new();
    for (name, definition) in document["definitions"].as_object().unwrap() {
        let properties = definition["properties"].as_object().into_iter().flatten();
        without.extend(
            properties
                .filter(|(_, property)| property.get("description").is_none())
                .map(|(field, _)| format!("{name}.{field}")),
        );
    }
    // Upstream does not describe these either; most are in JSONSchemaProps.
    assert!(without.len() <= 50, "{}: {without:?}", without.len());
}

#[test]
fn fields_beyond_upstream_have_descriptions() {
    let mut found = 0;
    for of in Table::builtin().types() {
        for field in of.fields.iter().filter(|field| field.is_rhumb_extension()) {
            let text = crate::rhumb_descriptions::of_field(&of.name, &field.name);
            assert!(text.is_some(), "{} {}", of.name, field.name);
            found += 1;
        }
    }
    assert_eq!(found, 35);
    let prefix = "io.k8s.api.admissionregistration.v1";
    let third = v3("apis/admissionregistration.k8s.io/v1");
    for definitions in [&v2()["definitions"], &third["components"]["schemas"]] {
        let rule = &definitions[format!("{prefix}.ExclusionRule")];
        assert!(rule["description"].is_string());
        let fields = rule["properties"].as_object().unwrap();
        // Eight fields and two aliases.
        assert_eq!(fields.len(), 10);
        for (name, field) in fields {
            assert!(field["description"].is_string(), "{name}");
        }
        for owner in ["ValidatingWebhook", "MutatingWebhook", "MatchResources"] {
            let rules =
                &definitions[format!("{prefix}.{owner}")]["properties"]["excludeResourceRules"];
            assert!(rules["description"].is_string(), "{owner}");
            assert_eq!(rules["x-kubernetes-list-type"], "atomic", "{owner}");
            for alias in ["exclusionRules", "excludeRules"] {
                let mut published =
                    definitions[format!("{prefix}.{owner}")]["properties"][alias].clone();
                published["description"] = rules["description"].clone();
                assert_eq!(&published, rules, "{owner} {alias}");
            }
            let mut references = Vec::new();
            collect_strings(rules, "$ref", &mut references);
            assert!(references[0].ends_with(".ExclusionRule"), "{owner}");
        }
        let included = &definitions[format!("{prefix}.NamedRuleWithOperations")]["properties"];
        assert!(included.get("namespaces").is_none());
    }
}

#[test]
fn network_policy_status_is_described() {
    let document = v3("apis/networking.k8s.io/v1");
    let schemas = &document["components"]["schemas"];
    let prefix = "io.k8s.api.networking.v1";
    let spec = &schemas[format!("{prefix}.NetworkPolicySpec")]["properties"];
    assert_eq!(spec["minVersion"]["type"], "string");
    let conditions = &schemas[format!("{prefix}.NetworkPolicyStatus")]["properties"]["conditions"];
    assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
    assert_eq!(conditions["x-kubernetes-patch-merge-key"], "type");
    let condition = &schemas[format!("{prefix}.NetworkPolicyStatusCondition")];
    assert_eq!(condition["required"], json!(["status", "type"]));
    let item = "/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies/{name}/status";
    assert!(document["paths"][item]["put"].is_object());

    let document = v3("apis/networking.rhumb.dev/v1alpha1");
    let node =
        &document["components"]["schemas"]["dev.rhumb.networking.v1alpha1.NetworkPolicyNode"];
    let gvk = json!([{ "group": "networking.rhumb.dev", "kind": "NetworkPolicyNode", "version": "v1alpha1" }]);
    assert_eq!(node["x-kubernetes-group-version-kind"], gvk);
    let fields = node["properties"].as_object().unwrap();
    assert!(
        fields
            .values()
            .all(|field| field["description"].is_string())
    );
}

#[test]
fn write_operations_list_parameters_and_content_types() {
    let document = v3("apis/apps/v1");
    let item = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
    let patch = &item["patch"];
    assert_eq!(patch["x-kubernetes-action"], "patch");
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({ "group": "apps", "kind": "Deployment", "version": "v1" })
    );
    // kubectl checks that these two parameters are documented before it sends them.
    let taken: Vec<&str> = patch["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|parameter| parameter["name"].as_str())
        .collect();
    assert_eq!(
        taken,
        ["dryRun", "fieldManager", "fieldValidation", "force"]
    );
    let shared: Vec<&str> = item["parameters"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|parameter| parameter["name"].as_str())
        .collect();
    assert_eq!(shared, ["name", "namespace", "pretty"]);
    assert!(
        patch["requestBody"]["content"]
            .get("application/apply-patch+yaml")
            .is_some()
    );
}

#[test]
fn subresources_have_their_own_kinds() {
    let document = v2();
    for (path, method, action, kind, content) in [
        (
            "apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale",
            "put",
            "put",
            "Scale",
            "io.k8s.api.autoscaling.v1.Scale",
        ),
        (
            "api/v1/namespaces/{namespace}/pods/{name}/eviction",
            "post",
            "post",
            "Eviction",
            "io.k8s.api.policy.v1.Eviction",
        ),
        (
            "api/v1/namespaces/{namespace}/pods/{name}/status",
            "get",
            "get",
            "Pod",
            "io.k8s.api.core.v1.Pod",
        ),
        (
            "api/v1/namespaces/{namespace}/pods/{name}",
            "delete",
            "delete",
            "Pod",
            "io.k8s.api.core.v1.Pod",
        ),
        (
            "api/v1/namespaces/{namespace}/configmaps/{name}",
            "delete",
            "delete",
            "ConfigMap",
            "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
        ),
    ] {
        let operation = &document["paths"][format!("/{path}")][method];
        assert_eq!(operation["x-kubernetes-action"], action, "{path}");
        assert_eq!(
            operation["x-kubernetes-group-version-kind"]["kind"], kind,
            "{path}"
        );
        let reference = format!("#/definitions/{content}");
        assert_eq!(
            operation["responses"]["200"]["schema"]["$ref"], reference,
            "{path}"
        );
    }
}

#[test]
fn index_lists_every_document_with_its_hash() {
    let kinds = kinds::all();
    let api = OpenApiBuilder::new(&kinds, Table::builtin());
    let index = api.v3_index();
    let hash = api.v3_hash("apis/apps/v1").unwrap();
    assert_eq!(
        index["paths"]["apis/apps/v1"]["serverRelativeURL"],
        format!("/openapi/v3/apis/apps/v1?hash={hash}")
    );
    assert!(index["paths"].get("api").is_some() && index["paths"].get("apis/apps").is_some());
    assert_eq!(api.v3("apis/nothing/v1"), None);
    assert_eq!(api.v3_hash("apis/nothing/v1"), None);
}

#[test]
fn adding_a_kind_changes_only_the_hash_of_its_document() {
    let before = kinds::all();
    let mut after = kinds::all();
    after.push(Kind::new(
        ResourceScope::Cluster,
        "apps",
        "v1",
        "Thing",
        "things",
        "org.example.v1.Thing",
    ));
    let table = Table::builtin();
    let (before, after) = (
        OpenApiBuilder::new(&before, table),
        OpenApiBuilder::new(&after, table),
    );
    assert_ne!(
        before.v3_hash("apis/apps/v1"),
        after.v3_hash("apis/apps/v1")
    );
    assert_eq!(before.v3_hash("api/v1"), after.v3_hash("api/v1"));
    assert_ne!(before.v2_hash(), after.v2_hash());
    let document: Value = serde_json::from_slice(&after.v3("apis/apps/v1").unwrap()).unwrap();
    assert_eq!(
        document["components"]["schemas"]["org.example.v1.Thing"]["type"],
        "object"
    );
}

#[test]
fn custom_resource_has_its_own_schema() {
    let kinds = [Kind::new(
        ResourceScope::Namespaced,
        "example.org",
        "v1",
        "Thing",
        "things",
        "org.example.v1.Thing",
    )];
    let schema = |of: &str| {
        let size = json!({ "type": "integer", "description": of });
        let spec = json!({ "type": "object", "properties": { "size": size } });
        let schema = json!({ "type": "object", "properties": { "spec": spec } });
        CustomSchemas::from([("org.example.v1.Thing".to_string(), schema.into())])
    };
    let (old, new) = (schema("How big."), schema("How tall."));
    let api = OpenApiBuilder::new(&kinds, Table::builtin());
    let hash = |schemas| api.with_schemas(schemas).v3_hash("apis/example.org/v1");
    assert_ne!(hash(&old), hash(&new));
    let v2_hash = |schemas| api.with_schemas(schemas).v2_hash();
    assert_ne!(v2_hash(&old), v2_hash(&new));

    let document = api.with_schemas(&new).v3("apis/example.org/v1").unwrap();
    let document: Value = serde_json::from_slice(&document).unwrap();
    let thing = &document["components"]["schemas"]["org.example.v1.Thing"];
    assert_eq!(
        thing["properties"]["spec"]["properties"]["size"]["description"],
        "How tall."
    );
    assert_eq!(thing["x-kubernetes-group-version-kind"][0]["kind"], "Thing");
    assert_eq!(
        thing["properties"]["metadata"]["allOf"][0]["$ref"],
        "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );

    for strange in [json!("nonsense"), json!({ "properties": [] })] {
        let strange = CustomSchemas::from([("org.example.v1.Thing".to_string(), strange.into())]);
        assert!(
            api.with_schemas(&strange)
                .v3("apis/example.org/v1")
                .is_some()
        );
        assert!(!api.with_schemas(&strange).v2_json().is_empty());
    }
}

/// `kubectl explain` shows them.
#[test]
fn fields_list_their_values_as_upstream_does() {
    let v2 = v2();
    let schemas = v2["definitions"].as_object().unwrap().values();
    let properties = schemas.filter_map(|schema| schema["properties"].as_object());
    let properties: Vec<_> = properties.flat_map(|fields| fields.values()).collect();
    let count = |enum_of: fn(&Value) -> &Value| {
        let mut enums = properties.iter().map(|property| enum_of(property));
        enums.by_ref().filter(|values| values.is_array()).count()
    };
    // 87 as upstream, and `minVersion` of network policies.
    assert_eq!(count(|property| &property["enum"]), 88);
    assert_eq!(count(|property| &property["items"]["enum"]), 10);
    assert_eq!(
        count(|property| &property["additionalProperties"]["enum"]),
        1
    );
    let core = |path: &str| {
        let (of, rest) = path.split_once('.').unwrap();
        let pointer = rest.replace('.', "/");
        let v3 = v3("api/v1");
        let schema = &v3["components"]["schemas"][format!("io.k8s.api.core.v1.{of}")];
        let in_v3 = schema.pointer(&format!("/properties/{pointer}/enum"));
        let in_v2 = &v2["definitions"][format!("io.k8s.api.core.v1.{of}")]["properties"];
        let in_v2 = in_v2.pointer(&format!("/{pointer}/enum"));
        assert_eq!(in_v2, in_v3, "{path}");
        in_v3.cloned().unwrap_or_default()
    };
    assert_eq!(
        core("PodSpec.restartPolicy"),
        json!(["Always", "Never", "OnFailure"])
    );
    assert_eq!(
        core("ServiceSpec.ipFamilies.items"),
        json!(["", "IPv4", "IPv6"])
    );
    assert_eq!(core("ContainerPort.name"), Value::Null);
    let requests = &v2["definitions"]["io.k8s.api.certificates.v1.CertificateSigningRequestSpec"];
    let usages = requests["properties"]["usages"]["items"]["enum"].as_array();
    assert!(usages.unwrap().contains(&json!("client auth")));
}
