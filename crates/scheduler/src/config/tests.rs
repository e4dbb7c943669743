use super::*;
use crate::model::NodeInclusionPolicy;
use crate::plugins::node_resources_fit::{ResourceSpec, ScoringStrategy, ShapePoint};
use crate::plugins::pod_topology_spread::DefaultConstraints;

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

fn read(text: &str) -> SchedulerConfig {
    let text = format!("{HEAD}{text}");
    SchedulerConfig::read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The plugins of a file's first profile as `name filters weight`; `f` if it filters.
fn plugins(text: &str) -> Vec<String> {
    let profile = read(text).profiles.remove(0);
    let shown = profile.plugins.node_plugins.iter().map(|one| {
        let filters = if one.filters { "f" } else { "-" };
        format!("{} {filters} {}", one.name, one.weight)
    });
    shown.collect()
}

const DEFAULTS: [&str; 11] = [
    "NodeUnschedulable f 0",
    "NodeName f 0",
    "TaintToleration f 3",
    "NodeAffinity f 2",
    "NodePorts f 0",
    "NodeResourcesFit f 1",
    "VolumeBinding f 0",
    "PodTopologySpread f 2",
    "InterPodAffinity f 2",
    "NodeResourcesBalancedAllocation - 1",
    "ImageLocality - 1",
];

#[test]
fn an_empty_file_gives_the_defaults() {
    for text in [
        "",
        "profiles: []\n",
        "profiles:\n- plugins:\n  pluginConfig: []\n",
        "profiles:\n- schedulerName: default-scheduler\n  plugins: {score: {}}\n",
        "leaderElection: {leaseDuration: 0s}\nclientConnection: {kubeconfig: '', qps: 5000, burst: 5000}\nparallelism: 1\nenableProfiling: false\n",
        "profiles:\n- pluginConfig:\n  - args:\n      apiVersion: kubescheduler.config.k8s.io/v1\n      kind: VolumeBindingArgs\n      bindTimeoutSeconds: 3\n    name: VolumeBinding\n",
    ] {
        assert_eq!(read(text), SchedulerConfig::default(), "{text}");
    }
    assert_eq!(plugins(""), DEFAULTS);
    let profile = ProfileConfig::default();
    assert!(profile.plugins.preemption);
}

#[test]
fn plugin_sets_are_merged_as_upstream() {
    let without = |name: &str| -> Vec<&str> {
        let mut left = DEFAULTS.to_vec();
        left.retain(|one| !one.starts_with(name));
        left
    };
    let changed = |name: &str, to: &'static str| -> Vec<&str> {
        let change = |one: &'static str| if one.starts_with(name) { to } else { one };
        DEFAULTS.into_iter().map(change).collect()
    };
    for (plugin_sets, want) in [
        (
            "multiPoint: {disabled: [{name: NodePorts}]}",
            without("NodePorts"),
        ),
        // Enabled again without a weight, it gets weight 1.
        (
            "multiPoint: {enabled: [{name: NodeAffinity}]}",
            changed("NodeAffinity", "NodeAffinity f 1"),
        ),
        (
            "score: {enabled: [{name: NodeAffinity, weight: 7}]}",
            changed("NodeAffinity", "NodeAffinity f 7"),
        ),
        (
            "score: {disabled: [{name: ImageLocality}]}",
            without("ImageLocality"),
        ),
        (
            "score: {disabled: [{name: TaintToleration}]}",
            changed("TaintToleration", "TaintToleration f 0"),
        ),
        // Disabled and enabled again changes only the weight.
        (
            "score: {disabled: [{name: NodeResourcesFit}], enabled: [{name: NodeResourcesFit, weight: 5}]}",
            changed("NodeResourcesFit", "NodeResourcesFit f 5"),
        ),
        (
            "score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality}]}",
            vec![
                "NodeUnschedulable f 0",
                "NodeName f 0",
                "TaintToleration f 0",
                "NodeAffinity f 0",
                "NodePorts f 0",
                "NodeResourcesFit f 0",
                "VolumeBinding f 0",
                "PodTopologySpread f 0",
                "InterPodAffinity f 0",
                "ImageLocality - 1",
            ],
        ),
        (
            "multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}, {name: InterPodAffinity, weight: 4}, {name: NodeName}]}",
            vec!["InterPodAffinity f 4", "NodeName f 0"],
        ),
        // Plugins enabled for an extension point run first there.
        (
            "multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}, {name: NodeName}]}, filter: {enabled: [{name: NodeUnschedulable}]}",
            vec!["NodeName f 0", "NodeUnschedulable f 0"],
        ),
        (
            "filter: {enabled: [{name: NodePorts}]}",
            [&["NodePorts f 0"], without("NodePorts").as_slice()].concat(),
        ),
        (
            "multiPoint: {enabled: [{name: VolumeZone}, {name: DynamicResources}]}, filter: {disabled: [{name: Unheard}]}",
            DEFAULTS.to_vec(),
        ),
    ] {
        let text = format!("profiles:\n- plugins: {{{plugin_sets}}}\n");
        assert_eq!(plugins(&text), want, "{plugin_sets}");
    }
    let quiet = read("profiles:\n- plugins: {postFilter: {disabled: [{name: '*'}]}}\n");
    assert!(!quiet.profiles[0].plugins.preemption);
}

#[test]
fn all_fields_are_read() {
    let config = read(
        "
percentageOfNodesToScore: 30
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
clientConnection: {kubeconfig: /etc/it}
leaderElection: {leaderElect: true, leaseDuration: 1m30s, renewDeadline: 60s, retryPeriod: 1.5s, resourceName: it, resourceNamespace: here, resourceLock: leases}
profiles:
- schedulerName: a
  percentageOfNodesToScore: 70
- schedulerName: b
  pluginConfig:
  - name: InterPodAffinity
    args: {hardPodAffinityWeight: 0, ignorePreferredTermsOfExistingPods: true}
  - name: DefaultPreemption
    args: {minCandidateNodesPercentage: 0}
  - name: NodeResourcesBalancedAllocation
    args: {resources: [{name: cpu}, {name: nvidia.com/gpu, weight: 1}]}
  - name: NodeResourcesFit
    args:
      ignoredResources: [example.com/foo]
      ignoredResourceGroups: [example.org]
      scoringStrategy:
        type: RequestedToCapacityRatio
        resources: [{name: cpu, weight: 3}, {name: memory}]
        requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Honor}]
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms:
          - matchExpressions: [{key: disk, operator: In, values: [ssd]}]
          - matchFields: [{key: metadata.name, operator: NotIn, values: [n1]}]
          - {}
        preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 5, preference: {matchExpressions: [{key: fast, operator: Exists}]}}
        - {weight: 0, preference: {matchExpressions: [{key: fast, operator: Exists}]}}
",
    );
    assert_eq!(config.kubeconfig.as_deref(), Some("/etc/it"));
    assert_eq!(
        (config.pod_initial_backoff, config.pod_max_backoff),
        (Duration::from_secs(2), Duration::from_secs(20))
    );
    assert_eq!(
        config.leader_election,
        LeaderElectionSettings {
            leader_elect: true,
            lease_duration: Duration::from_secs(90),
            renew_deadline: Duration::from_secs(60),
            retry_period: Duration::from_millis(1500),
            resource_name: "it".to_owned(),
            resource_namespace: "here".to_owned(),
        }
    );
    let [a, b] = config.profiles.as_slice() else {
        panic!("{:?}", config.profiles);
    };
    assert_eq!(
        (&*a.scheduler_name, a.percentage_of_nodes_to_score),
        ("a", 70)
    );
    assert_eq!(
        (&*b.scheduler_name, b.percentage_of_nodes_to_score),
        ("b", 30)
    );
    assert_eq!(b.args.preemption.min_candidate_nodes_percentage, 0);
    assert_eq!(b.args.preemption.min_candidate_nodes_absolute, 100);
    let args = &b.args.node_plugins;
    assert_eq!(args.inter_pod_affinity.hard_pod_affinity_weight, 0);
    assert!(
        args.inter_pod_affinity
            .ignore_preferred_terms_of_existing_pods
    );
    let weights = |resources: &[ResourceSpec]| -> Vec<(String, i64)> {
        let resources = resources.iter();
        resources
            .map(|one| (one.name.to_string(), one.weight))
            .collect()
    };
    let pair = |name: &str, weight: i64| (name.to_owned(), weight);
    assert_eq!(
        weights(&args.node_resources_balanced_allocation.resources),
        [pair("cpu", 1), pair("nvidia.com/gpu", 1)]
    );
    let fit = &args.node_resources_fit;
    assert!(fit.ignored_resources.contains("example.com/foo"));
    assert!(fit.ignored_resource_groups.contains("example.org"));
    assert_eq!(weights(&fit.resources), [pair("cpu", 3), pair("memory", 1)]);
    let point = |utilization, score| ShapePoint { utilization, score };
    assert_eq!(
        fit.strategy,
        ScoringStrategy::RequestedToCapacityRatio(vec![point(0, 0), point(100, 10)])
    );
    let DefaultConstraints::List(spread) = &args.pod_topology_spread else {
        panic!("{args:?}");
    };
    assert_eq!(spread.len(), 1);
    assert_eq!(spread[0].node_taints_policy, NodeInclusionPolicy::Honor);
    let nodes = &args.node_affinity;
    let terms = nodes
        .required
        .as_ref()
        .and_then(|nodes| nodes.terms.as_ref());
    assert_eq!(terms.map(|terms| terms.len()), Some(2));
    assert_eq!(nodes.preferred.len(), 1);
    assert_eq!(a.args, PluginArgs::default());
}

#[test]
fn errors_name_the_line_and_column() {
    let args = |plugin: &str, args: &str| {
        format!("profiles:\n- pluginConfig:\n  - name: {plugin}\n    args: {args}\n")
    };
    let table = [
        ("profils: []\n".to_owned(), "line 3, column 1: unknown field"),
        (
            "leaderElection: {leaseDuration: 5s}\n".to_owned(),
            "line 3, column 33: leaderElection.leaseDuration: Invalid value: \"10s\": must be greater than `RenewDeadline`",
        ),
        (
            "leaderElection: {renewDeadline: never}\n".to_owned(),
            "leaderElection.renewDeadline: Invalid value: \"never\": must be greater than zero, as in 15s",
        ),
        (
            "leaderElection: {retryPeriod: 1h}\n".to_owned(),
            "leaderElection.renewDeadline: Invalid value: \"10s\": must be greater than 1.2 times `RetryPeriod`",
        ),
        (
            "leaderElection: {leaseDuration: 9000h}\n".to_owned(),
            "leaderElection.leaseDuration: Invalid value: \"9000h\": must be no more than 8760h",
        ),
        (
            "leaderElection: {resourceLock: endpoints}\n".to_owned(),
            "leaderElection.resourceLock: Invalid value: \"endpoints\": resourceLock value must be \"leases\"",
        ),
        (
            "clientConnection: {burst: -1}\n".to_owned(),
            "line 3, column 27: clientConnection.burst: Invalid value: -1: must be non-negative",
        ),
        (
            "parallelism: 0\n".to_owned(),
            "line 3, column 14: parallelism: Invalid value: 0: should be an integer value greater than zero",
        ),
        (
            "percentageOfNodesToScore: 101\n".to_owned(),
            "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
        ),
        (
            "podInitialBackoffSeconds: 0\n".to_owned(),
            "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            "podInitialBackoffSeconds: 11\n".to_owned(),
            "podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds",
        ),
        (
            "extenders: [{urlPrefix: x}]\n".to_owned(),
            "line 3, column 12: extenders: Forbidden: rhumb's scheduler does not support extenders; remove them, or use kube-scheduler",
        ),
        (
            "profiles:\n- schedulerName: a\n- {}\n".to_owned(),
            "line 5, column 3: profiles[1].schedulerName: Required value",
        ),
        (
            "profiles:\n- schedulerName: a\n- schedulerName: a\n".to_owned(),
            "line 5, column 18: profiles[1].schedulerName: Duplicate value: \"profiles[0].schedulerName\"",
        ),
        (
            "profiles:\n- schedulerName: a\n- schedulerName: b\n  plugins: {queueSort: {enabled: [{name: PrioritySort}]}}\n".to_owned(),
            "profiles[1].plugins.queueSort: Forbidden: must be the same for all profiles",
        ),
        (
            "profiles:\n- plugins: {queueSort: {disabled: [{name: '*'}]}}\n".to_owned(),
            "profiles[0].plugins.queueSort: Required value: PrioritySort cannot be disabled: rhumb has no other plugin for it",
        ),
        (
            "profiles:\n- plugins: {multiPoint: {disabled: [{name: DefaultBinder}]}}\n".to_owned(),
            "profiles[0].plugins.bind: Required value: DefaultBinder cannot be disabled",
        ),
        (
            "profiles:\n- plugins:\n    score:\n      enabled:\n      - name: Mine\n".to_owned(),
            "line 7, column 15: profiles[0].plugins.score.enabled[0].name: Invalid value: \"Mine\": unknown plugin; known plugins are SchedulingGates, ",
        ),
        (
            "profiles:\n- plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}\n".to_owned(),
            "profiles[0].plugins.multiPoint.enabled[0].name: Invalid value: \"GangScheduling\": rhumb does not have this plugin",
        ),
        (
            "profiles:\n- plugins: {filter: {enabled: [{name: EBSLimits}]}}\n".to_owned(),
            "was invalid in version \"v1\" (KubeSchedulerConfiguration is version \"kubescheduler.config.k8s.io/v1\")",
        ),
        (
            "profiles:\n- plugins: {filter: {enabled: [{name: ImageLocality}]}}\n".to_owned(),
            "profiles[0].plugins.filter.enabled: Invalid value: \"ImageLocality\": plugin \"ImageLocality\" does not implement extension point filter",
        ),
        (
            "profiles:\n- plugins: {filter: {enabled: [{name: NodeName}, {name: NodeName}]}}\n".to_owned(),
            "profiles[0].plugins.filter.enabled[1].name: Duplicate value: \"NodeName\"",
        ),
        (
            "profiles:\n- plugins: {score: {enabled: [{name: ImageLocality, weight: -1}]}}\n".to_owned(),
            "profiles[0].plugins.score.enabled[0].weight: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            "profiles:\n- plugins: {preFilter: {disabled: [{name: InterPodAffinity}]}}\n".to_owned(),
            "profiles[0].plugins.preFilter: Forbidden: plugin \"InterPodAffinity\" cannot be disabled in preFilter and stay enabled in filter",
        ),
        (
            args("Mine", "{}"),
            "line 5, column 11: profiles[0].pluginConfig[0].name: Invalid value: \"Mine\": unknown plugin; known plugins are ",
        ),
        (args("NodeAffinity", "{affinity: {}}"), "line 6, column 12: unknown field"),
        (
            args("NodeAffinity", "{defaultingType: List}"),
            "line 6, column 28: profiles[0].pluginConfig[0].args.defaultingType: Forbidden: unknown field of the args for plugin NodeAffinity",
        ),
        (
            args("NodeAffinity", "{kind: NodeResourcesFitArgs}"),
            "args for plugin NodeAffinity must be NodeAffinityArgs of kubescheduler.config.k8s.io/v1",
        ),
        (
            args("InterPodAffinity", "{hardPodAffinityWeight: 101}"),
            "args.hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
        ),
        (
            args("DefaultPreemption", "{minCandidateNodesPercentage: 101, minCandidateNodesAbsolute: -1}"),
            "args.minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]; line 6, column 73: profiles[0].pluginConfig[0].args.minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
        ),
        (
            args("DefaultPreemption", "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}"),
            "cannot be zero at the same time as minCandidateNodesPercentage",
        ),
        (
            args("NodeResourcesFit", "{ignoredResourceGroups: [a/b]}"),
            "args.ignoredResourceGroups[0]: Invalid value: \"a/b\": resource group name can't contain '/'",
        ),
        (
            args("NodeResourcesFit", "{scoringStrategy: {type: Best}}"),
            "args.scoringStrategy.type: Unsupported value: \"Best\": supported values: \"LeastAllocated\", \"MostAllocated\", \"RequestedToCapacityRatio\"",
        ),
        (
            args("NodeResourcesFit", "{scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 101}]}}"),
            "resource weight of cpu not in valid range (0, 100]",
        ),
        (
            args("NodeResourcesFit", "{scoringStrategy: {type: RequestedToCapacityRatio}}"),
            "args.scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is RequestedToCapacityRatio",
        ),
        (
            args("NodeResourcesFit", "{scoringStrategy: {type: LeastAllocated, requestedToCapacityRatio: {}}}"),
            "Forbidden: must be nil when type is not RequestedToCapacityRatio",
        ),
        (
            args("NodeResourcesFit", "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 5, score: 11}, {utilization: 5}]}}}"),
            "shape[1].utilization: Invalid value: 5: values must be sorted in increasing order",
        ),
        (
            args("NodeResourcesBalancedAllocation", "{resources: [{name: cpu, weight: 2}]}"),
            "args.resources[0].weight: Invalid value: 2: must be 1",
        ),
        (
            args("PodTopologySpread", "{defaultConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}"),
            "args.defaultingType: Invalid value: \"System\": when .defaultConstraints are not empty",
        ),
        (
            args("PodTopologySpread", "{defaultingType: List, defaultConstraints: [{maxSkew: 0, topologyKey: '', labelSelector: {}}]}"),
            "maxSkew: Invalid value: 0: not in valid range (0, inf); line 6, column 81: profiles[0].pluginConfig[0].args.defaultConstraints[0].topologyKey: Required value: can not be empty; ",
        ),
        (
            args("NodeAffinity", "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Is}]}]}}}"),
            "nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: \"Is\": supported values: ",
        ),
        (
            args("NodeAffinity", "{addedAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchFields: [{key: metadata.name, operator: In, values: [a, b]}]}}]}}"),
            "matchFields[0].values: Invalid value: [\"a\",\"b\"]: must have one element",
        ),
    ];
    for (text, want) in table {
        let text = format!("{HEAD}{text}");
        let error = SchedulerConfig::read(&text).expect_err(&text).to_string();
        assert!(error.contains(want), "{text}\n{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let other =
        "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\n";
    let error = SchedulerConfig::read(other).expect_err(other).to_string();
    assert_eq!(
        error,
        "line 2, column 7: unsupported kind KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1beta3; expected KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1"
    );
}
