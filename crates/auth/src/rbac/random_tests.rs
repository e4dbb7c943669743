//! Randomized tests: the policy index against a reference evaluator that scans every binding.

use rhumb_seeded_rng::SeededRng;
use serde_json::{Map, Value, json};

use super::tests::map;
use super::*;
use crate::authz::{Attributes, Authorizer as _};
use crate::user::User;

fn one_or_two(random: &mut SeededRng, from: &[&str]) -> Vec<String> {
    let mut picked = random.some(from, 1);
    picked.push(random.choose(from).to_owned());
    picked
}

const VERBS: &[&str] = &["get", "list", "create", "*"];
const GROUPS: &[&str] = &["", "apps", "*"];
const RESOURCES: &[&str] = &["pods", "pods/log", "nodes", "*/log", "*", "nodes/log"];
const NAMES: &[&str] = &["x", "y"];
const URLS: &[&str] = &["/a", "/a/*", "/b*", "*"];
const NAMESPACES: &[&str] = &["", "n1", "n2"];
const ROLES: &[&str] = &["r1", "r2", "r3"];
const USERS: &[&str] = &[
    "ann",
    "bob",
    "system:serviceaccount:n1:bot",
    "system:serviceaccount:n2:bot",
];
const MEMBERS: &[&str] = &["dev", "ops"];

fn random_role(random: &mut SeededRng) -> Value {
    let rules: Vec<Value> = (0..random.below(3))
        .map(|_| {
            json!({
                "verbs": one_or_two(random, VERBS), "apiGroups": one_or_two(random, GROUPS),
                "resources": one_or_two(random, RESOURCES), "resourceNames": random.some(NAMES, 1),
                "nonResourceURLs": random.some(URLS, 1),
            })
        })
        .collect();
    json!({ "rules": rules })
}

fn random_binding(random: &mut SeededRng) -> Value {
    let subjects: Vec<Value> = (0..random.below(4))
        .map(|_| match random.below(4) {
            0 => json!({"kind": "User", "name": random.choose(USERS)}),
            1 => json!({"kind": "Group", "name": random.choose(MEMBERS)}),
            2 => json!({"kind": "ServiceAccount", "name": "bot", "namespace": random.choose(NAMESPACES)}),
            _ => json!({"kind": "Robot", "name": random.choose(USERS)}),
        })
        .collect();
    let kind = random.choose(&["Role", "ClusterRole"]);
    json!({"subjects": subjects, "roleRef": {"kind": kind, "name": random.choose(ROLES)}})
}

/// All objects by kind, namespace and name, for the reference evaluator.
type RbacObjectMap = std::collections::BTreeMap<(RbacKind, String, String), Map<String, Value>>;

fn rules_of<'a>(objects: &'a RbacObjectMap, binding: &Value, namespace: &str) -> Option<&'a Value> {
    let role = &binding["roleRef"];
    let (kind, namespace) = match role["kind"].as_str() {
        Some("ClusterRole") => (RbacKind::ClusterRole, ""),
        _ => (RbacKind::Role, namespace),
    };
    let key = (
        kind,
        namespace.to_owned(),
        role["name"].as_str()?.to_owned(),
    );
    objects.get(&key)?.get("rules")
}

fn is_subject(user: &User, subject: &Value, namespace: &str) -> bool {
    let name = subject["name"].as_str().unwrap_or_default();
    match subject["kind"].as_str() {
        Some("User") => user.name == name,
        Some("Group") => user.groups.iter().any(|group| group == name),
        Some("ServiceAccount") => {
            let own = subject["namespace"].as_str().unwrap_or_default();
            let of = if own.is_empty() { namespace } else { own };
            !of.is_empty() && user.name == format!("system:serviceaccount:{of}:{name}")
        }
        _ => false,
    }
}

fn has(values: &Value, test: impl Fn(&str) -> bool) -> bool {
    values
        .as_array()
        .is_some_and(|it| it.iter().filter_map(Value::as_str).any(test))
}

fn rule_allows(rule: &Value, asked: &Attributes<'_>) -> bool {
    let verb = has(&rule["verbs"], |own| own == "*" || own == asked.verb);
    if !asked.is_resource {
        return verb
            && has(&rule["nonResourceURLs"], |own| {
                let stem = own.trim_end_matches('*');
                own == asked.path || (own != stem && asked.path.starts_with(stem))
            });
    }
    let full = match asked.subresource {
        "" => asked.resource.to_owned(),
        subresource => format!("{}/{subresource}", asked.resource),
    };
    let any_parent = format!("*/{}", asked.subresource);
    verb && has(&rule["apiGroups"], |own| {
        own == "*" || own == asked.api_group
    }) && has(&rule["resources"], |own| {
        own == "*" || own == full || own == any_parent
    }) && (rule["resourceNames"] == json!([])
        || has(&rule["resourceNames"], |own| own == asked.name))
}

fn allows(objects: &RbacObjectMap, asked: &Attributes<'_>) -> bool {
    objects.iter().any(|((kind, namespace, _), binding)| {
        let in_scope = match kind {
            RbacKind::ClusterRoleBinding => true,
            RbacKind::RoleBinding => !asked.namespace.is_empty() && namespace == asked.namespace,
            _ => false,
        };
        let binding = Value::Object(binding.clone());
        let subjects = binding["subjects"].as_array();
        let applies =
            subjects.is_some_and(|it| it.iter().any(|it| is_subject(asked.user, it, namespace)));
        let rules = rules_of(objects, &binding, namespace).and_then(Value::as_array);
        in_scope
            && applies
            && rules.is_some_and(|it| it.iter().any(|rule| rule_allows(rule, asked)))
    })
}

#[test]
fn index_decides_like_a_linear_scan() {
    let mut allowed = 0;
    for seed in 1..=30 {
        let mut random = SeededRng::new(seed);
        let index = RbacPolicyIndex::new();
        let mut objects = RbacObjectMap::new();
        for _ in 0..60 {
            let kind = RbacKind::ALL[random.below(4)];
            let namespace = match kind.is_namespaced() {
                true => random.choose(&NAMESPACES[1..]),
                false => "",
            };
            let name = random.choose(ROLES);
            let object = match (kind, random.below(5)) {
                (_, 0) => None,
                (RbacKind::ClusterRole | RbacKind::Role, _) => Some(map(random_role(&mut random))),
                _ => Some(map(random_binding(&mut random))),
            };
            index
                .apply(kind, namespace, name, object.as_ref())
                .expect("applies");
            let key = (kind, namespace.to_owned(), name.to_owned());
            match object {
                Some(object) => objects.insert(key, object),
                None => objects.remove(&key),
            };
            let user = User {
                groups: random.some(MEMBERS, 2),
                ..User::new(random.choose(USERS), &[])
            };
            for _ in 0..20 {
                let asked = match random.below(5) {
                    0 => Attributes::path(
                        &user,
                        random.choose(&VERBS[..3]),
                        random.choose(&["/a", "/a/b", "/bc", "/"]),
                    ),
                    _ => Attributes {
                        namespace: random.choose(NAMESPACES),
                        name: random.choose(&["", "x", "z"]),
                        subresource: random.choose(&["", "log"]),
                        ..Attributes::resource(
                            &user,
                            random.choose(&VERBS[..3]),
                            random.choose(&GROUPS[..2]),
                            random.choose(&["pods", "nodes"]),
                        )
                    },
                };
                let want = allows(&objects, &asked);
                allowed += u32::from(want);
                assert_eq!(
                    index.policy().authorize(&asked).is_allowed(),
                    want,
                    "seed {seed}: {asked:?}\n{objects:?}"
                );
            }
        }
    }
    assert!(
        allowed > 1000,
        "the random policies allow too few requests: {allowed}"
    );
}

#[test]
fn uncovered_permissions_are_those_not_allowed() {
    let mut random = SeededRng::new(7);
    let single = |rules: &[PolicyRule], one: &PolicyRule| {
        // A permission without wildcards is covered if and only if a request for it is allowed.
        let ann = User::new("ann", &[]);
        let verb = one.verbs[0].as_str();
        let asked = match one.non_resource_urls.first() {
            Some(url) => Attributes::path(&ann, verb, url),
            None => {
                let resource = one.resources[0].as_str();
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                let name = one.resource_names.first().map_or("", String::as_str);
                Attributes {
                    subresource,
                    name,
                    ..Attributes::resource(&ann, verb, &one.api_groups[0], resource)
                }
            }
        };
        rules.iter().any(|rule| rule.allows(&asked))
    };
    for _ in 0..3000 {
        let rules = |random: &mut SeededRng| -> Vec<PolicyRule> {
            let role = random_role(random);
            let mut rules: Vec<PolicyRule> =
                serde_json::from_value(role["rules"].clone()).expect("valid rules");
            // Validation rejects rules with both resource names and paths.
            for rule in rules
                .iter_mut()
                .filter(|it| !it.non_resource_urls.is_empty())
            {
                rule.resource_names.clear();
            }
            rules
        };
        let (held, wanted) = (rules(&mut random), rules(&mut random));
        for missing in uncovered(&held, &wanted).expect("few permissions") {
            let is_plain = !missing.to_string().contains('*');
            assert!(
                !is_plain || !single(&held, &missing),
                "{held:?} covers {missing}"
            );
        }
        assert_eq!(
            uncovered(&wanted, &wanted),
            Ok(vec![]),
            "rules cover themselves"
        );
    }
}
