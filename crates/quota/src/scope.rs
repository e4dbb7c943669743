//! Quota scopes: which objects a quota counts (upstream: `ResourceQuotaScope`, `ScopedResourceSelectorRequirement`).

use std::fmt;

use serde_json::Value;

use crate::ScopeAttributes;

/// A scope of a ResourceQuota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuotaScope {
    Terminating,
    NotTerminating,
    BestEffort,
    NotBestEffort,
    PriorityClass,
    CrossNamespacePodAffinity,
    VolumeAttributesClass,
    /// A scope of a later version; matches nothing.
    Unknown,
}

impl QuotaScope {
    /// Upstream's name of the scope.
    pub fn as_str(self) -> &'static str {
        match self {
            QuotaScope::Terminating => "Terminating",
            QuotaScope::NotTerminating => "NotTerminating",
            QuotaScope::BestEffort => "BestEffort",
            QuotaScope::NotBestEffort => "NotBestEffort",
            QuotaScope::PriorityClass => "PriorityClass",
            QuotaScope::CrossNamespacePodAffinity => "CrossNamespacePodAffinity",
            QuotaScope::VolumeAttributesClass => "VolumeAttributesClass",
            QuotaScope::Unknown => "unknown",
        }
    }

    fn named(name: &str) -> QuotaScope {
        match name {
            "Terminating" => QuotaScope::Terminating,
            "NotTerminating" => QuotaScope::NotTerminating,
            "BestEffort" => QuotaScope::BestEffort,
            "NotBestEffort" => QuotaScope::NotBestEffort,
            "PriorityClass" => QuotaScope::PriorityClass,
            "CrossNamespacePodAffinity" | "CrossNamespaceAffinity" => {
                QuotaScope::CrossNamespacePodAffinity
            }
            "VolumeAttributesClass" => QuotaScope::VolumeAttributesClass,
            _ => QuotaScope::Unknown,
        }
    }
}

/// Operator of a scope selector expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScopeOperator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl ScopeOperator {
    pub fn named(name: &str) -> Option<ScopeOperator> {
        match name {
            "In" => Some(ScopeOperator::In),
            "NotIn" => Some(ScopeOperator::NotIn),
            "Exists" => Some(ScopeOperator::Exists),
            "DoesNotExist" => Some(ScopeOperator::DoesNotExist),
            _ => None,
        }
    }
}

/// One entry of a quota's `scopes`, or one expression of its `scopeSelector`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ScopeRequirement {
    pub scope: QuotaScope,
    /// The name of the scope as written in the quota.
    pub name: Box<str>,
    pub operator: ScopeOperator,
    pub values: Vec<String>,
}

impl ScopeRequirement {
    /// An entry of `spec.scopes`.
    pub fn exists(name: &str) -> ScopeRequirement {
        ScopeRequirement {
            scope: QuotaScope::named(name),
            name: name.into(),
            operator: ScopeOperator::Exists,
            values: Vec::new(),
        }
    }

    /// Parses an expression of a `scopeSelector`. A missing or unknown operator means `Exists`.
    pub fn parse(expression: &Value) -> ScopeRequirement {
        let text = |field: &str| expression[field].as_str().unwrap_or_default();
        let values = expression["values"].as_array();
        let values = values.map(|values| values.iter().filter_map(Value::as_str));
        ScopeRequirement {
            operator: ScopeOperator::named(text("operator")).unwrap_or(ScopeOperator::Exists),
            values: values.into_iter().flatten().map(str::to_owned).collect(),
            ..ScopeRequirement::exists(text("scopeName"))
        }
    }

    /// All scope requirements of a quota's spec.
    pub fn all_of(spec: &Value) -> Vec<ScopeRequirement> {
        let scopes = spec["scopes"].as_array();
        let scopes = scopes.into_iter().flatten().filter_map(Value::as_str);
        let expressions = spec["scopeSelector"]["matchExpressions"].as_array();
        let expressions = expressions.into_iter().flatten();
        scopes
            .map(ScopeRequirement::exists)
            .chain(expressions.map(ScopeRequirement::parse))
            .collect()
    }

    pub fn matches(&self, scope_attributes: &ScopeAttributes) -> bool {
        match scope_attributes {
            ScopeAttributes::None => false,
            ScopeAttributes::Pod {
                is_terminating,
                is_best_effort,
                priority_class,
                has_cross_namespace_affinity,
            } => match self.scope {
                QuotaScope::Terminating => *is_terminating,
                QuotaScope::NotTerminating => !is_terminating,
                QuotaScope::BestEffort => *is_best_effort,
                QuotaScope::NotBestEffort => !is_best_effort,
                QuotaScope::CrossNamespacePodAffinity => *has_cross_namespace_affinity,
                QuotaScope::PriorityClass => {
                    self.matches_value((!priority_class.is_empty()).then_some(&**priority_class))
                }
                QuotaScope::VolumeAttributesClass | QuotaScope::Unknown => false,
            },
            ScopeAttributes::VolumeClaim { attributes_classes } => {
                self.scope == QuotaScope::VolumeAttributesClass
                    && match &**attributes_classes {
                        [] => self.matches_value(None),
                        classes => classes.iter().any(|class| self.matches_value(Some(class))),
                    }
            }
        }
    }

    fn matches_value(&self, value: Option<&str>) -> bool {
        let is_named = |value: &str| self.values.iter().any(|named| named == value);
        match self.operator {
            ScopeOperator::Exists => value.is_some(),
            ScopeOperator::DoesNotExist => value.is_none(),
            ScopeOperator::In => value.is_some_and(is_named),
            ScopeOperator::NotIn => !value.is_some_and(is_named),
        }
    }
}

impl fmt::Display for ScopeRequirement {
    /// In the format of upstream's error messages.
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

    /// A pod with a deadline and a priority class, not best effort, without cross-namespace affinity.
    fn pod(priority_class: &str) -> ScopeAttributes {
        ScopeAttributes::Pod {
            is_terminating: true,
            is_best_effort: false,
            priority_class: priority_class.into(),
            has_cross_namespace_affinity: false,
        }
    }

    fn claim(classes: &[&str]) -> ScopeAttributes {
        let attributes_classes = classes.iter().map(|class| Box::from(*class)).collect();
        ScopeAttributes::VolumeClaim { attributes_classes }
    }

    #[test]
    fn scopes_match_by_object_attributes() {
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
            let scope = ScopeRequirement::exists(name);
            assert_eq!(scope.matches(&pod("gold")), of_pod, "{name}");
            assert_eq!(scope.matches(&claim(&["gold"])), of_claim, "{name}");
            assert!(!scope.matches(&ScopeAttributes::None), "{name}");
        }
    }

    #[test]
    fn the_affinity_scope_has_two_names() {
        let scope_attributes = ScopeAttributes::Pod {
            is_terminating: false,
            is_best_effort: false,
            priority_class: "".into(),
            has_cross_namespace_affinity: true,
        };
        for name in ["CrossNamespacePodAffinity", "CrossNamespaceAffinity"] {
            let scope = ScopeRequirement::exists(name);
            assert!(scope.matches(&scope_attributes), "{name}");
            assert_eq!(&*scope.name, name, "name as written in the quota");
        }
    }

    #[test]
    fn operators_match_classes() {
        let table: [(&str, &[&str], [bool; 3]); 6] = [
            // Without a class, with class a, with class b.
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
                ScopeRequirement::parse(&expression)
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
    fn any_of_several_classes_matches() {
        let expression =
            json!({"scopeName": "VolumeAttributesClass", "operator": "NotIn", "values": ["a"]});
        let scope = ScopeRequirement::parse(&expression);
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
        let all = ScopeRequirement::all_of(&spec).into_iter();
        let all: Vec<String> = all.map(|scope| scope.to_string()).collect();
        assert_eq!(all, ["{Terminating Exists []}", "{PriorityClass In [a b]}"]);
        assert_eq!(ScopeRequirement::all_of(&json!({})), []);
    }
}
