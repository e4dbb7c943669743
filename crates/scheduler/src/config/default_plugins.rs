//! The plugins that a configuration file can name: upstream's default plugins with their extension points and weights
//! (upstream: `pkg/scheduler/apis/config/v1/default_plugins.go`).

use crate::plugins;

/// An extension point of upstream's scheduling framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExtensionPoint {
    PreEnqueue,
    QueueSort,
    PreFilter,
    Filter,
    PostFilter,
    PreScore,
    Score,
    Reserve,
    Permit,
    PreBind,
    Bind,
    PostBind,
    PlacementGenerate,
    PlacementScore,
}

use ExtensionPoint::{
    Bind, Filter, PlacementScore, PostFilter, PreBind, PreEnqueue, PreFilter, PreScore, QueueSort,
    Reserve, Score,
};

pub(super) const EXTENSION_POINTS: [ExtensionPoint; 14] = [
    PreEnqueue,
    QueueSort,
    PreFilter,
    Filter,
    PostFilter,
    PreScore,
    Score,
    Reserve,
    ExtensionPoint::Permit,
    PreBind,
    Bind,
    ExtensionPoint::PostBind,
    ExtensionPoint::PlacementGenerate,
    PlacementScore,
];

impl ExtensionPoint {
    /// The field name in the configuration file.
    pub(super) fn name(self) -> &'static str {
        match self {
            PreEnqueue => "preEnqueue",
            QueueSort => "queueSort",
            PreFilter => "preFilter",
            Filter => "filter",
            PostFilter => "postFilter",
            PreScore => "preScore",
            Score => "score",
            Reserve => "reserve",
            ExtensionPoint::Permit => "permit",
            PreBind => "preBind",
            Bind => "bind",
            ExtensionPoint::PostBind => "postBind",
            ExtensionPoint::PlacementGenerate => "placementGenerate",
            PlacementScore => "placementScore",
        }
    }
}

/// A plugin that a configuration file can name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DefaultPlugin {
    pub(super) name: &'static str,
    pub(super) points: &'static [ExtensionPoint],
    /// The default score weight.
    pub(super) weight: i32,
}

impl DefaultPlugin {
    /// The factory, if rhumb implements the plugin as a filter or score plugin. Upstream defaults that rhumb lacks may
    /// be named in a file and have no effect.
    pub(super) fn factory(&self) -> Option<&'static plugins::PluginFactory> {
        plugins::plugin_factories()
            .iter()
            .find(|factory| factory.name == self.name)
    }
}

const FILTER_AND_SCORE: &[ExtensionPoint] = &[PreFilter, Filter, PreScore, Score];

/// The plugins that upstream enables by default, in upstream's order.
pub(super) const DEFAULT_PLUGINS: &[DefaultPlugin] = &[
    default_plugin("SchedulingGates", &[PreEnqueue], 0),
    default_plugin("PrioritySort", &[QueueSort], 0),
    default_plugin("NodeUnschedulable", &[Filter], 0),
    default_plugin("NodeName", &[Filter], 0),
    default_plugin("TaintToleration", &[Filter, PreScore, Score], 3),
    default_plugin("NodeAffinity", FILTER_AND_SCORE, 2),
    default_plugin("NodePorts", &[PreFilter, Filter], 0),
    default_plugin(
        "NodeResourcesFit",
        &[PreFilter, Filter, PreScore, Score, PlacementScore],
        1,
    ),
    default_plugin("VolumeRestrictions", &[PreFilter, Filter], 0),
    default_plugin("NodeVolumeLimits", &[PreFilter, Filter], 0),
    default_plugin(
        "VolumeBinding",
        &[PreFilter, Filter, Reserve, PreBind, PreScore, Score],
        0,
    ),
    default_plugin("VolumeZone", &[PreFilter, Filter], 0),
    default_plugin("PodTopologySpread", FILTER_AND_SCORE, 2),
    default_plugin("InterPodAffinity", FILTER_AND_SCORE, 2),
    default_plugin(
        "DynamicResources",
        &[
            PreEnqueue, PreFilter, Filter, PostFilter, Score, Reserve, PreBind,
        ],
        2,
    ),
    default_plugin("DefaultPreemption", &[PreEnqueue, PostFilter], 0),
    default_plugin("NodeResourcesBalancedAllocation", &[PreScore, Score], 1),
    default_plugin("ImageLocality", &[Score], 1),
    default_plugin("DefaultBinder", &[Bind], 0),
    default_plugin("NodeDeclaredFeatures", &[PreFilter, Filter], 0),
];

/// Upstream plugins that are disabled by default; rhumb does not implement them.
const UNSUPPORTED_PLUGINS: [&str; 3] = [
    "GangScheduling",
    "PodGroupPodsCount",
    "TopologyPlacementGenerator",
];

/// Plugins that upstream has removed.
const REMOVED_PLUGINS: [&str; 4] = [
    "AzureDiskLimits",
    "CinderLimits",
    "EBSLimits",
    "GCEPDLimits",
];

const fn default_plugin(
    name: &'static str,
    points: &'static [ExtensionPoint],
    weight: i32,
) -> DefaultPlugin {
    DefaultPlugin {
        name,
        points,
        weight,
    }
}

/// Looks up a plugin by name. The error says why it cannot be used.
pub(super) fn find(name: &str) -> Result<&'static DefaultPlugin, String> {
    if let Some(plugin) = DEFAULT_PLUGINS.iter().find(|plugin| plugin.name == name) {
        return Ok(plugin);
    }
    Err(if REMOVED_PLUGINS.contains(&name) {
        "was invalid in version \"v1\" (KubeSchedulerConfiguration is version \"kubescheduler.config.k8s.io/v1\")".to_owned()
    } else if UNSUPPORTED_PLUGINS.contains(&name) {
        "rhumb does not have this plugin".to_owned()
    } else {
        let names: Vec<&str> = DEFAULT_PLUGINS.iter().map(|plugin| plugin.name).collect();
        format!("unknown plugin; known plugins are {}", names.join(", "))
    })
}
