//! The plugins that there are, and where each has a say.

use crate::plugins;

/// Where plugins have a say, in upstream's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Point {
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

use Point::{
    Bind, Filter, PlacementScore, PostFilter, PreBind, PreEnqueue, PreFilter, PreScore, QueueSort,
    Reserve, Score,
};

pub(super) const POINTS: [Point; 14] = [
    PreEnqueue,
    QueueSort,
    PreFilter,
    Filter,
    PostFilter,
    PreScore,
    Score,
    Reserve,
    Point::Permit,
    PreBind,
    Bind,
    Point::PostBind,
    Point::PlacementGenerate,
    PlacementScore,
];

impl Point {
    /// As the file has it.
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
            Point::Permit => "permit",
            PreBind => "preBind",
            Bind => "bind",
            Point::PostBind => "postBind",
            Point::PlacementGenerate => "placementGenerate",
            PlacementScore => "placementScore",
        }
    }
}

/// A plugin that a file can name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) points: &'static [Point],
    /// By default.
    pub(super) weight: i32,
}

impl Known {
    /// What makes it, if it has a say about nodes. What upstream has on by default and we do not have can be named, and
    /// says nothing.
    pub(super) fn about_nodes(&self) -> Option<&'static plugins::Known> {
        plugins::known()
            .iter()
            .find(|known| known.name == self.name)
    }
}

const BOTH: &[Point] = &[PreFilter, Filter, PreScore, Score];

/// Those that are on by default, in upstream's order.
pub(super) const KNOWN: &[Known] = &[
    known("SchedulingGates", &[PreEnqueue], 0),
    known("PrioritySort", &[QueueSort], 0),
    known("NodeUnschedulable", &[Filter], 0),
    known("NodeName", &[Filter], 0),
    known("TaintToleration", &[Filter, PreScore, Score], 3),
    known("NodeAffinity", BOTH, 2),
    known("NodePorts", &[PreFilter, Filter], 0),
    known(
        "NodeResourcesFit",
        &[PreFilter, Filter, PreScore, Score, PlacementScore],
        1,
    ),
    known("VolumeRestrictions", &[PreFilter, Filter], 0),
    known("NodeVolumeLimits", &[PreFilter, Filter], 0),
    known(
        "VolumeBinding",
        &[PreFilter, Filter, Reserve, PreBind, PreScore, Score],
        0,
    ),
    known("VolumeZone", &[PreFilter, Filter], 0),
    known("PodTopologySpread", BOTH, 2),
    known("InterPodAffinity", BOTH, 2),
    known(
        "DynamicResources",
        &[
            PreEnqueue, PreFilter, Filter, PostFilter, Score, Reserve, PreBind,
        ],
        2,
    ),
    known("DefaultPreemption", &[PreEnqueue, PostFilter], 0),
    known("NodeResourcesBalancedAllocation", &[PreScore, Score], 1),
    known("ImageLocality", &[Score], 1),
    known("DefaultBinder", &[Bind], 0),
    known("NodeDeclaredFeatures", &[PreFilter, Filter], 0),
];

/// What upstream has beside those, off by default.
const ABSENT: [&str; 3] = [
    "GangScheduling",
    "PodGroupPodsCount",
    "TopologyPlacementGenerator",
];

/// What upstream had once.
const REMOVED: [&str; 4] = [
    "AzureDiskLimits",
    "CinderLimits",
    "EBSLimits",
    "GCEPDLimits",
];

const fn known(name: &'static str, points: &'static [Point], weight: i32) -> Known {
    Known {
        name,
        points,
        weight,
    }
}

/// The plugin of that name, or why there is none.
pub(super) fn find(name: &str) -> Result<&'static Known, String> {
    if let Some(known) = KNOWN.iter().find(|known| known.name == name) {
        return Ok(known);
    }
    Err(if REMOVED.contains(&name) {
        "was invalid in version \"v1\" (KubeSchedulerConfiguration is version \"kubescheduler.config.k8s.io/v1\")".to_owned()
    } else if ABSENT.contains(&name) {
        "rhumb does not have this plugin".to_owned()
    } else {
        let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
        format!("there is no such plugin; there are {}", names.join(", "))
    })
}
