//! Selectors and objects as the watch cache, the scheduler and the network policy engine have them.

use rhumb_meta::labels::Selector;

/// How the labels of an object are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LabelLookup {
    /// Only the strings of selectors are interned; those of an object are looked up per change.
    Resolved,
    /// The strings of an object are interned when it is added.
    Interned,
    /// The object keeps its interned labels.
    Stored,
}

/// A selector of labels or of one field value.
#[derive(Debug)]
pub(super) struct IndexedSelector {
    /// The namespace, `None` for all.
    pub(super) namespace: Option<String>,
    pub(super) labels: Selector,
    /// The required value of the field.
    pub(super) field: Option<String>,
}

#[derive(Debug)]
pub(super) struct LabeledObject {
    pub(super) namespace: String,
    pub(super) labels: Vec<(String, String)>,
    pub(super) field: String,
}

#[derive(Debug)]
pub(super) struct SelectionWorkload {
    pub(super) name: &'static str,
    pub(super) lookup: LabelLookup,
    pub(super) selectors: Vec<IndexedSelector>,
    pub(super) objects: Vec<LabeledObject>,
}

/// Watchers of pods: one per node by its name, controllers by label in a namespace, a few of everything.
pub(super) fn watchers() -> SelectionWorkload {
    let selector = |namespace, labels: String, field| IndexedSelector {
        namespace,
        labels: labels.parse().unwrap_or_default(),
        field,
    };
    let nodes = (0..5000).map(|node| selector(None, String::new(), Some(node_name(node))));
    let of_apps = (0..4000).map(|number| {
        let labels = format!("app=app-{},tier in (web,db)", number % 400);
        selector(Some(namespace(number % 500)), labels, None)
    });
    let others = (0..10).map(|number| selector(None, format!("extra-{number}"), None));
    SelectionWorkload {
        name: "watchers",
        lookup: LabelLookup::Resolved,
        selectors: nodes.chain(of_apps).chain(others).collect(),
        objects: objects(20_000, 500),
    }
}

/// Matchers of affinity terms and spread constraints: each selects the pods of one application in its namespace.
pub(super) fn matchers() -> SelectionWorkload {
    let selectors = (0..5000).map(|number| IndexedSelector {
        namespace: (number % 10 != 0).then(|| namespace(number % 500)),
        labels: format!("app=app-{}", number % 400)
            .parse()
            .unwrap_or_default(),
        field: None,
    });
    SelectionWorkload {
        name: "matchers",
        lookup: LabelLookup::Interned,
        selectors: selectors.collect(),
        objects: objects(20_000, 500),
    }
}

/// Targets and peers of network policies in many namespaces, some of which require a key only or nothing.
pub(super) fn policies() -> SelectionWorkload {
    let selectors = (0..30_000).map(|number| IndexedSelector {
        namespace: Some(namespace(number % 10_000)),
        labels: match number % 10 {
            0 => Selector::everything(),
            _ => format!("app=app-{}", number % 400)
                .parse()
                .unwrap_or_default(),
        },
        field: None,
    });
    SelectionWorkload {
        name: "policies",
        lookup: LabelLookup::Stored,
        selectors: selectors.collect(),
        objects: objects(40_000, 10_000),
    }
}

fn objects(count: usize, namespaces: usize) -> Vec<LabeledObject> {
    let label = |key: &str, value: String| (key.to_owned(), value);
    let objects = (0..count).map(|number| LabeledObject {
        namespace: namespace(number % namespaces),
        labels: vec![
            label("app", format!("app-{}", number % 400)),
            label("pod-template-hash", format!("{:x}", number / 10)),
            label("release", "stable".to_owned()),
            label(
                "statefulset.kubernetes.io/pod-name",
                format!("pod-{number}"),
            ),
            label("tier", ["web", "db", "cache"][number % 3].to_owned()),
        ],
        field: node_name(number % 5000),
    });
    objects.collect()
}

fn namespace(number: usize) -> String {
    format!("namespace-{number}")
}

fn node_name(number: usize) -> String {
    format!("node-{number}")
}
