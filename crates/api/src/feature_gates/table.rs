//! The table of all feature gates, upstream's and rhumb's own: stage, default, lock.

use super::FeatureSpec;
use super::FeatureStage::{Alpha, Beta, Deprecated, Ga};

/// Declares the features. A `locked` feature cannot be set to anything but its default.
macro_rules! features {
    ($($name:ident $stage:ident $default:literal $($locked:ident)?;)*) => {
        /// A feature gate, named as in `--feature-gates`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Feature {
            $($name,)*
        }

        pub(super) const SPECS: &[FeatureSpec] = &[
            $(FeatureSpec {
                feature: Feature::$name,
                name: stringify!($name),
                stage: $stage,
                default: $default,
                is_locked: is_locked!($($locked)?),
            },)*
        ];
    };
}

macro_rules! is_locked {
    () => {
        false
    };
    (locked) => {
        true
    };
}

features! {
    APIResponseCompression Beta true;
    APIServerIdentity Beta true;
    APIServerTracing Ga true locked;
    APIServingWithRoutine Alpha false;
    AdmissionWebhookExclusionRules Beta true;
    AggregatedDiscoveryRemoveBetaType Deprecated true locked;
    AllowDNSOnlyNodeCSR Deprecated false;
    AllowInsecureKubeletCertificateSigningRequests Deprecated false;
    AllowOverwriteTerminationGracePeriodSeconds Deprecated true locked;
    AllowParsingUserUIDFromCertAuth Beta true;
    AllowServiceExternalIPs Ga true;
    AllowUnsafeMalformedObjectDeletion Alpha false;
    AnonymousAuthConfigurableEndpoints Ga true locked;
    AnyVolumeDataSource Ga true locked;
    AuthorizeNodeWithSelectors Ga true locked;
    AuthorizePodWebsocketUpgradeCreatePermission Beta true;
    AuthorizeWithSelectors Ga true locked;
    BtreeWatchCache Ga true locked;
    CBORServingAndStorage Alpha false;
    CPUManagerPolicyAlphaOptions Alpha false;
    CPUManagerPolicyBetaOptions Beta true;
    CPUManagerPolicyOptions Ga true locked;
    CRDObservedGenerationTracking Beta true;
    CRDValidationRatcheting Ga true locked;
    CRIListStreaming Alpha false;
    CSIServiceAccountTokenSecrets Ga true locked;
    CSIVolumeHealth Alpha false;
    CacherLabelIndex Beta true;
    ChangeContainerStatusOnKubeletRestart Deprecated false;
    ClearingNominatedNodeNameAfterBinding Beta true;
    CloudControllerManagerWatchBasedRoutesReconciliation Alpha false;
    CloudControllerManagerWebhook Alpha false;
    ClusterTrustBundle Beta false;
    ClusterTrustBundleProjection Beta false;
    ComponentFlagz Beta true;
    ComponentStatusz Beta true;
    ConcurrentWatchObjectDecode Beta false;
    ConsistentListFromCache Ga true locked;
    ConstrainedImpersonation Beta true;
    ContainerCheckpoint Beta true;
    ContainerRestartRules Beta true;
    ContainerStopSignals Alpha false;
    ContextualLogging Beta true;
    CoordinatedLeaderElection Beta false;
    CrossNamespaceVolumeDataSource Alpha false;
    CustomCPUCFSQuotaPeriod Ga true;
    CustomResourceFieldSelectors Ga true locked;
    DRAAdminAccess Ga true locked;
    DRAConsumableCapacity Beta true;
    DRADeviceBindingConditions Beta true;
    DRADeviceTaintRules Beta false;
    DRADeviceTaints Beta true;
    DRAExtendedResource Beta true;
    DRAListTypeAttributes Alpha false;
    DRANodeAllocatableResources Alpha false;
    DRAPartitionableDevices Beta true;
    DRAPrioritizedList Ga true;
    DRAResourceClaimDeviceStatus Beta true;
    DRAResourceClaimGranularStatusAuthorization Beta true;
    DRAResourcePoolStatus Alpha false;
    DRASchedulerFilterTimeout Beta true;
    DRAWorkloadResourceClaims Alpha false;
    DeclarativeValidation Ga true locked;
    DeclarativeValidationBeta Beta true;
    DeclarativeValidationTakeover Deprecated false;
    DeploymentReplicaSetTerminatingReplicas Beta true;
    DetectCacheInconsistency Beta true;
    DisableAllocatorDualWrite Ga true locked;
    DisableCPUQuotaWithExclusiveCPUs Deprecated true;
    DisableNodeKubeProxyVersion Deprecated true locked;
    DynamicResourceAllocation Ga true locked;
    EnvFiles Beta true;
    EventedPLEG Alpha false;
    ExecProbeTimeout Ga true locked;
    ExtendWebSocketsToKubelet Beta true;
    ExternalServiceAccountTokenSigner Ga true locked;
    GangScheduling Alpha false;
    GenericWorkload Alpha false;
    GitRepoVolumeDriver Deprecated true locked;
    GracefulNodeShutdown Beta true;
    GracefulNodeShutdownBasedOnPodPriority Beta true;
    HPAConfigurableTolerance Beta true;
    HPAScaleToZero Alpha false;
    HostnameOverride Beta true;
    ImageMaximumGCAge Ga true locked;
    ImageVolume Ga true locked;
    ImageVolumeWithDigest Alpha false;
    InPlacePodLevelResourcesVerticalScaling Beta true;
    InPlacePodVerticalScaling Ga true locked;
    InPlacePodVerticalScalingExclusiveCPUs Alpha false;
    InPlacePodVerticalScalingExclusiveMemory Alpha false;
    InPlacePodVerticalScalingInitContainers Beta true;
    JobBackoffLimitPerIndex Ga true locked;
    JobManagedBy Ga true locked;
    JobPodReplacementPolicy Ga true locked;
    JobSuccessPolicy Ga true locked;
    KMSv1 Deprecated false;
    KubeletCgroupDriverFromCRI Ga true locked;
    KubeletCrashLoopBackOffMax Beta true;
    KubeletEnsureSecretPulledImages Beta true;
    KubeletFineGrainedAuthz Ga true locked;
    KubeletInUserNamespace Alpha false;
    KubeletPSI Ga true locked;
    KubeletPodResourcesDynamicResources Ga true locked;
    KubeletPodResourcesGet Ga true locked;
    KubeletPodResourcesListUseActivePods Deprecated true;
    KubeletRegistrationGetOnExistsOnly Deprecated false;
    KubeletSeparateDiskGC Beta true;
    KubeletServiceAccountTokenForCredentialProviders Beta true;
    KubeletTracing Ga true locked;
    ListFromCacheSnapshot Beta true;
    LocalStorageCapacityIsolationFSQuotaMonitoring Beta false;
    LogarithmicScaleDown Ga true locked;
    LoggingAlphaOptions Alpha false;
    LoggingBetaOptions Beta true;
    ManifestBasedAdmissionControlConfig Alpha false;
    MatchLabelKeysInPodAffinity Ga true locked;
    MatchLabelKeysInPodTopologySpread Beta true;
    MatchLabelKeysInPodTopologySpreadSelectorMerge Beta true;
    MaxUnavailableStatefulSet Beta false;
    MemoryQoS Alpha false;
    MultiCIDRServiceAllocator Ga true locked;
    MutableCSINodeAllocatableCount Ga true locked;
    MutablePVNodeAffinity Alpha false;
    MutablePodResourcesForSuspendedJobs Beta true;
    MutableSchedulingDirectivesForSuspendedJobs Beta true;
    MutatingAdmissionPolicy Ga true;
    NFTablesProxyMode Ga true locked;
    NamespaceDefaultLabelName Ga true;
    NetworkPolicyVersioning Beta true;
    NodeDeclaredFeatures Beta true;
    NodeInclusionPolicyInPodTopologySpread Ga true locked;
    NodeLogQuery Ga true locked;
    NodeSwap Ga true locked;
    NominatedNodeNameForExpectation Beta true;
    OpenAPIEnums Beta true;
    OpportunisticBatching Beta true;
    OrderedNamespaceDeletion Ga true locked;
    PLEGOnDemandRelist Beta true;
    PersistentVolumeClaimUnusedSinceTime Alpha false;
    PodAffinityNamespaceSelector Ga true;
    PodAndContainerStatsFromCRI Alpha false;
    PodCertificateRequest Beta false;
    PodDeletionCost Beta true;
    PodLevelResourceManagers Alpha false;
    PodLevelResources Beta true;
    PodLifecycleSleepAction Ga true locked;
    PodLifecycleSleepActionAllowZero Ga true locked;
    PodLogsQuerySplitStreams Alpha false;
    PodObservedGenerationTracking Ga true locked;
    PodReadyToStartContainersCondition Beta true;
    PodSchedulingReadiness Ga true locked;
    PodTopologyLabelsAdmission Beta true;
    PodsAPI Alpha false;
    PortForwardWebsockets Beta true;
    PreferSameTrafficDistribution Ga true locked;
    PreventStaticPodAPIReferences Beta true;
    ProcMountType Ga true locked;
    QOSReserved Alpha false;
    RecoverVolumeExpansionFailure Ga true locked;
    RecursiveReadOnlyMounts Ga true locked;
    ReduceDefaultCrashLoopBackOffDecay Alpha false;
    RelaxedDNSSearchValidation Ga true locked;
    RelaxedEnvironmentVariableValidation Ga true locked;
    RelaxedServiceNameValidation Beta true;
    ReloadKubeletClientCAFile Beta true;
    ReloadKubeletServerCertificateFile Beta true;
    RemoteRequestHeaderUID Beta true;
    ResilientWatchCacheInitialization Ga true locked;
    ResourceHealthStatus Beta true;
    ResourceHealthStatusMessage Beta true;
    RestartAllContainersOnContainerExits Beta true;
    RetryGenerateName Ga true locked;
    RotateKubeletServerCertificate Beta true;
    RuntimeClassInImageCriApi Alpha false;
    SELinuxChangePolicy Ga true locked;
    SELinuxMount Beta false;
    SELinuxMountReadWriteOncePod Ga true locked;
    SchedulerAsyncAPICalls Beta false;
    SchedulerAsyncPreemption Beta true;
    SchedulerPopFromBackoffQ Beta true;
    SchedulerQueueingHints Ga true locked;
    SeparateCacheWatchRPC Deprecated true locked;
    SeparateTaintEvictionController Ga true locked;
    ServiceAccountNodeAudienceRestriction Beta true;
    ServiceAccountTokenJTI Ga true locked;
    ServiceAccountTokenNodeBinding Ga true locked;
    ServiceAccountTokenNodeBindingValidation Ga true locked;
    ServiceAccountTokenPodNodeInfo Ga true locked;
    ServiceCIDRStatusFieldWiping Deprecated true;
    ShardedListAndWatch Alpha false;
    SidecarContainers Ga true locked;
    SizeBasedListCostEstimate Beta true;
    StaleControllerConsistencyDaemonSet Beta true;
    StaleControllerConsistencyJob Beta true;
    StaleControllerConsistencyReplicaSet Beta true;
    StaleControllerConsistencyStatefulSet Beta true;
    StatefulSetSemanticRevisionComparison Beta true;
    StorageCapacityScoring Alpha false;
    StorageNamespaceIndex Deprecated true;
    StorageVersionAPI Alpha false;
    StorageVersionHash Beta true;
    StorageVersionMigrator Beta false;
    StreamingCollectionEncodingToJSON Ga true locked;
    StreamingCollectionEncodingToProtobuf Ga true locked;
    StrictIPCIDRValidation Beta true;
    StructuredAuthenticationConfiguration Ga true locked;
    StructuredAuthenticationConfigurationEgressSelector Beta true;
    StructuredAuthenticationConfigurationJWKSMetrics Beta true;
    SupplementalGroupsPolicy Ga true locked;
    SystemdWatchdog Ga true locked;
    TaintTolerationComparisonOperators Alpha false;
    TokenRequestServiceAccountUIDValidation Beta true;
    TopologyAwareWorkloadScheduling Alpha false;
    TopologyManagerPolicyAlphaOptions Alpha false;
    TopologyManagerPolicyBetaOptions Beta true;
    TopologyManagerPolicyOptions Ga true locked;
    TranslateStreamCloseWebsocketRequests Beta true;
    UnauthenticatedHTTP2DOSMitigation Beta true;
    UnknownVersionInteroperabilityProxy Beta true;
    UserNamespacesHostNetworkSupport Alpha false;
    UserNamespacesSupport Ga true locked;
    VolumeAttributesClass Ga true locked;
    VolumeLimitScaling Alpha false;
    WatchCacheInitializationPostStartHook Beta true;
    WatchList Beta true;
    WinDSR Ga true locked;
    WinOverlay Ga true locked;
    WindowsCPUAndMemoryAffinity Alpha false;
    WindowsGracefulNodeShutdown Beta true;
    WindowsHostNetwork Deprecated false;
    WorkloadAwarePreemption Alpha false;
    WorkloadWithJob Alpha false;
}
