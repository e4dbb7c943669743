//! Which objects a quota looks at.

use std::fmt;

use serde_json::Value;

use crate::Traits;

/// What a scope asks of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    Terminating,
    NotTerminating,
    BestEffort,
    NotBestEffort,
    PriorityClass,
    CrossNamespacePodAffinity,
    VolumeAttributesClass,
    /// Of a future version; nothing is in it.
    Unknown,
}

impl Scope {
    /// The name under which Kubernetes ships it.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Terminating => "Terminating",
            Scope::NotTerminating => "NotTerminating",
            Scope::BestEffort => "BestEffort",
            Scope::NotBestEffort => "NotBestEffort",
            Scope::PriorityClass => "PriorityClass",
            Scope::CrossNamespacePodAffinity => "CrossNamespacePodAffinity",
            Scope::VolumeAttributesClass => "VolumeAttributesClass",
            Scope::Unknown => "unknown",
        }
    }

    fn named(name: &str) -> Scope {
        match name {
            "Terminating" => Scope::Terminating,
            "NotTerminating" => Scope::NotTerminating,
            "BestEffort" => Scope::BestEffort,
            "NotBestEffort" => Scope::NotBestEffort,
            "PriorityClass" => Scope::PriorityClass,
            "CrossNamespacePodAffinity" | "CrossNamespaceAffinity" => {
                Scope::CrossNamespacePodAffinity
            }
            "VolumeAttributesClass" => Scope::VolumeAttributesClass,
            _ => Scope::Unknown,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Operator {
    pub fn named(name: &str) -> Option<Operator> {
        match name {
            "In" => Some(Operator::In),
            "NotIn" => Some(Operator::NotIn),
            "Exists" => Some(Operator::Exists),
            "DoesNotExist" => Some(Operator::DoesNotExist),
            _ => None,
        }
    }
}

/// One scope of a quota, or one expression of its selector.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    pub scope: Scope,
    /// As it was written.
    pub name: Box<str>,
    pub operator: Operator,
    pub values: Vec<String>,
}

impl Requirement {
    /// The scope itself, as in a list of scopes.
    pub fn exists(name: &str) -> Requirement {
        Requirement {
            scope: Scope::named(name),
            name: name.into(),
            operator: Operator::Exists,
            values: Vec::new(),
        }
    }

    /// An expression of a selector. One without an operator, or with one that nobody knows, asks for the scope
    /// itself.
    pub fn parse(expression: &Value) -> Requirement {
        let text = |field: &str| expression[field].as_str().unwrap_or_default();
        let values = expression["values"].as_array();
        let values = values.map(|values| values.iter().filter_map(Value::as_str));
        Requirement {
            operator: Operator::named(text("operator")).unwrap_or(Operator::Exists),
            values: values.into_iter().flatten().map(str::to_owned).collect(),
            ..Requirement::exists(text("scopeName"))
        }
    }

    /// All that a quota's spec asks for.
    pub fn all_of(spec: &Value) -> Vec<Requirement> {
        let scopes = spec["scopes"].as_array();
        let scopes = scopes.into_iter().flatten().filter_map(Value::as_str);
        let expressions = spec["scopeSelector"]["matchExpressions"].as_array();
        let expressions = expressions.into_iter().flatten();
        scopes
            .map(Requirement::exists)
            .chain(expressions.map(Requirement::parse))
            .collect()
    }

    pub fn matches(&self, traits: &Traits) -> bool {
        match traits {
            Traits::None => false,
            Traits::Pod {
                is_terminating,
                is_best_effort,
                priority_class,
                has_cross_namespace_affinity,
            } => match self.scope {
                Scope::Terminating => *is_terminating,
                Scope::NotTerminating => !is_terminating,
                Scope::BestEffort => *is_best_effort,
                Scope::NotBestEffort => !is_best_effort,
                Scope::CrossNamespacePodAffinity => *has_cross_namespace_affinity,
                Scope::PriorityClass => {
                    self.picks((!priority_class.is_empty()).then_some(&**priority_class))
                }
                Scope::VolumeAttributesClass | Scope::Unknown => false,
            },
            Traits::VolumeClaim { attributes_classes } => {
                self.scope == Scope::VolumeAttributesClass
                    && match &**attributes_classes {
                        [] => self.picks(None),
                        classes => classes.iter().any(|class| self.picks(Some(class))),
                    }
            }
        }
    }

    fn picks(&self, value: Option<&str>) -> bool {
        let is_named = |value: &str| self.values.iter().any(|named| named == value);
        match self.operator {
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::In => value.is_some_and(is_named),
            Operator::NotIn => !value.is_some_and(is_named),
        }
    }
}

impl fmt::Display for Requirement {
    /// As upstream's error texts show it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{{{} {:?} [{}]}}",
            self.name,
            self.operator,
            self.values.join(" ")
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A pod that is in scopes by half: with a deadline and a class, not best effort, without affinity.
    fn pod(priority_class: &str) -> Traits {
        Traits::Pod {
            is_terminating: true,
            is_best_effort: false,
            priority_class: priority_class.into(),
            has_cross_namespace_affinity: false,
        }
    }

    fn claim(classes: &[&str]) -> Traits {
        let attributes_classes = classes.iter().map(|class| Box::from(*class)).collect();
        Traits::VolumeClaim { attributes_classes }
    }

    #[test]
    fn scopes_are_for_objects_that_have_them() {
        for (name, of_pod, of_claim) in [
            ("Terminating", true, false),
            ("NotTerminating", false, false),
            ("BestEffort", false, false),
            ("NotBestEffort", true, false),
            ("PriorityClass", true, false),
            ("CrossNamespacePodAffinity", false, false),
            ("CrossNamespaceAffinity", false, false),
            ("VolumeAttributesClass", false, true),
            ("Future", false, false),
        ] {
            let scope = Requirement::exists(name);
            assert_eq!(scope.matches(&pod("gold")), of_pod, "{name}");
            assert_eq!(scope.matches(&claim(&["gold"])), of_claim, "{name}");
            assert!(!scope.matches(&Traits::None), "{name}");
        }
    }

    #[test]
    fn affinity_has_two_names() {
        let traits = Traits::Pod {
            is_terminating: false,
            is_best_effort: false,
            priority_class: "".into(),
            has_cross_namespace_affinity: true,
        };
        for name in ["CrossNamespacePodAffinity", "CrossNamespaceAffinity"] {
            let scope = Requirement::exists(name);
            assert!(scope.matches(&traits), "{name}");
            assert_eq!(&*scope.name, name, "as it was written");
        }
    }

    #[test]
    fn classes_are_picked_by_operators() {
        let table: [(&str, &[&str], [bool; 3]); 6] = [
            // Of no class, of class a, of class b.
            ("Exists", &[], [false, true, true]),
            ("DoesNotExist", &[], [true, false, false]),
            ("In", &["a", "x"], [false, true, false]),
            ("NotIn", &["a", "x"], [true, false, true]),
            ("", &[], [false, true, true]),
            ("Future", &["a"], [false, true, true]),
        ];
        for (operator, values, want) in table {
            let of = |scope: &str| {
                let expression =
                    json!({"scopeName": scope, "operator": operator, "values": values});
                Requirement::parse(&expression)
            };
            let scope = of("PriorityClass");
            let got = ["", "a", "b"].map(|class| scope.matches(&pod(class)));
            assert_eq!(got, want, "{scope}");
            let scope = of("VolumeAttributesClass");
            let got = [&[][..], &["a"], &["b"]].map(|classes| scope.matches(&claim(classes)));
            assert_eq!(got, want, "{scope}");
        }
    }

    #[test]
    fn one_of_several_classes_is_enough() {
        let expression =
            json!({"scopeName": "VolumeAttributesClass", "operator": "NotIn", "values": ["a"]});
        let scope = Requirement::parse(&expression);
        assert!(scope.matches(&claim(&["a", "b"])));
        assert!(!scope.matches(&claim(&["a"])));
    }

    #[test]
    fn a_quota_has_scopes_and_expressions() {
        let spec = json!({
            "scopes": ["Terminating"],
            "scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["a", "b"]},
            ]},
        });
        let all = Requirement::all_of(&spec).into_iter();
        let all: Vec<String> = all.map(|scope| scope.to_string()).collect();
        assert_eq!(all, ["{Terminating Exists []}", "{PriorityClass In [a b]}"]);
        assert_eq!(Requirement::all_of(&json!({})), []);
    }
}
