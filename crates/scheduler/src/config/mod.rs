//! The scheduler's configuration file, `KubeSchedulerConfiguration`, decoded strictly and validated as upstream does.
//! Entry point: [`SchedulerConfig::read`].
//!
//! ```yaml
//! apiVersion: kubescheduler.config.k8s.io/v1
//! kind: KubeSchedulerConfiguration
//! profiles:
//!   - schedulerName: packing
//!     plugins:
//!       score:
//!         disabled: [{name: NodeResourcesBalancedAllocation}]
//!     pluginConfig:
//!       - name: NodeResourcesFit
//!         args: {scoringStrategy: {type: MostAllocated}}
//! ```

mod args;
mod default_plugins;
mod field_positions;
mod plugins;
mod settings;
#[cfg(test)]
mod tests;
mod v1;

use std::time::Duration;

use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::{ConfigFileError, read_file};

pub use args::PluginArgs;
pub use plugins::{EnabledPluginConfig, ProfilePlugins};

use field_positions::FieldPositions;
use v1::KubeSchedulerConfiguration;

const KIND: &str = "KubeSchedulerConfiguration";
const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
pub const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";

/// Limits on the profiles in a file and on the errors reported for it.
const PROFILES_MAX: usize = 100;
const ERRORS_REPORTED_MAX: usize = 10;

/// A validated scheduler configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct SchedulerConfig {
    pub leader_election: LeaderElectionSettings,
    /// Path of the kubeconfig file, if given.
    pub kubeconfig: Option<String>,
    pub pod_initial_backoff: Duration,
    pub pod_max_backoff: Duration,
    /// At least one, with distinct scheduler names.
    pub profiles: Vec<ProfileConfig>,
    /// Feature gate `PodAffinityNamespaceSelector`; not part of the file.
    pub namespace_selectors: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderElectionSettings {
    /// If false, this process schedules without holding a lease.
    pub leader_elect: bool,
    pub lease_duration: Duration,
    pub renew_deadline: Duration,
    pub retry_period: Duration,
    pub resource_name: String,
    pub resource_namespace: String,
}

/// A scheduling profile: the settings for pods whose `schedulerName` names it.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileConfig {
    pub scheduler_name: String,
    /// The search stops at this share of feasible nodes; 0 derives it from the cluster size.
    pub percentage_of_nodes_to_score: u8,
    pub plugins: ProfilePlugins,
    pub args: PluginArgs,
}

impl Default for SchedulerConfig {
    fn default() -> SchedulerConfig {
        SchedulerConfig {
            leader_election: LeaderElectionSettings::default(),
            kubeconfig: None,
            pod_initial_backoff: Duration::from_secs(1),
            pod_max_backoff: Duration::from_secs(10),
            profiles: vec![ProfileConfig::default()],
            namespace_selectors: true,
        }
    }
}

impl Default for LeaderElectionSettings {
    fn default() -> LeaderElectionSettings {
        LeaderElectionSettings {
            leader_elect: true,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            resource_name: "kube-scheduler".to_owned(),
            resource_namespace: "kube-system".to_owned(),
        }
    }
}

impl Default for ProfileConfig {
    fn default() -> ProfileConfig {
        ProfileConfig {
            scheduler_name: DEFAULT_SCHEDULER_NAME.to_owned(),
            percentage_of_nodes_to_score: 0,
            plugins: ProfilePlugins::read(None, &Path::NIL, &mut ErrorList::new()),
            args: PluginArgs::default(),
        }
    }
}

impl SchedulerConfig {
    /// Reads and validates a configuration file in YAML or JSON.
    pub fn read(text: &str) -> Result<SchedulerConfig, ConfigFileError> {
        let file: KubeSchedulerConfiguration = read_file(text)?;
        let (kind, version) = (&*file.kind.value, &*file.api_version);
        if kind != KIND || version != API_VERSION {
            let position = &file.kind.referenced;
            let reason =
                format!("unsupported kind {kind} of {version}; expected {KIND} of {API_VERSION}");
            return Err(ConfigFileError::at(
                (position.line(), position.column()),
                reason,
            ));
        }
        let mut errors = ErrorList::new();
        let config = SchedulerConfig::check(&file, &mut errors);
        match errors.is_empty() {
            true => Ok(config),
            false => Err(validation_error(&errors, text)),
        }
    }

    fn check(file: &KubeSchedulerConfiguration, errors: &mut ErrorList) -> SchedulerConfig {
        let connection = file.client_connection.as_ref();
        let burst = connection.and_then(|connection| connection.burst);
        if let Some(burst) = burst.filter(|burst| *burst < 0) {
            let path = Path::new("clientConnection");
            let detail = "must be non-negative";
            errors.push(Error::invalid(&path.child("burst"), burst, detail));
        }
        let leader_election = read_leader_election(file.leader_election.as_ref(), errors);
        if let Some(parallelism) = file.parallelism.filter(|parallelism| *parallelism <= 0) {
            let detail = "should be an integer value greater than zero";
            errors.push(Error::invalid(
                &Path::new("parallelism"),
                parallelism,
                detail,
            ));
        }
        let profiles = read_profiles(file, errors);
        let (initial, max) = read_backoff(file, errors);
        if file
            .extenders
            .as_ref()
            .is_some_and(|extenders| !extenders.is_empty())
        {
            let detail =
                "rhumb's scheduler does not support extenders; remove them, or use kube-scheduler";
            errors.push(Error::forbidden(&Path::new("extenders"), detail));
        }
        SchedulerConfig {
            leader_election,
            kubeconfig: connection
                .and_then(|connection| connection.kubeconfig.clone())
                .filter(|path| !path.is_empty()),
            pod_initial_backoff: initial,
            pod_max_backoff: max,
            profiles,
            namespace_selectors: true,
        }
    }
}

/// Combines validation errors into one line, each with its line and column.
fn validation_error(errors: &ErrorList, text: &str) -> ConfigFileError {
    let positions = FieldPositions::read(text);
    let position = |error: &Error| {
        positions
            .as_ref()
            .map_or((0, 0), |positions| positions.position_of(&error.field))
    };
    let mut located = errors
        .iter()
        .map(|error| ConfigFileError::at(position(error), error.to_string()));
    match located.next() {
        Some(only) if errors.len() == 1 => only,
        first => {
            let all = first.into_iter().chain(located).take(ERRORS_REPORTED_MAX);
            let all: Vec<String> = all.map(|error| error.to_string()).collect();
            ConfigFileError::whole(all.join("; "))
        }
    }
}

/// Longer lease durations are certainly mistakes.
const ELECTION_DURATION_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

fn read_leader_election(
    form: Option<&v1::LeaderElectionConfiguration>,
    errors: &mut ErrorList,
) -> LeaderElectionSettings {
    let defaults = LeaderElectionSettings::default();
    let Some(form) = form else { return defaults };
    let path = Path::new("leaderElection");
    let mut duration = |name: &str, value: &Option<String>, default: Duration| {
        let Some(value) = value.as_deref() else {
            return default;
        };
        match rhumb_meta::parse_duration(value) {
            // As upstream, zero means the default.
            Some(Duration::ZERO) => default,
            Some(duration) if duration > ELECTION_DURATION_MAX => {
                let detail = "must be no more than 8760h";
                errors.push(Error::invalid(&path.child(name), value, detail));
                default
            }
            Some(duration) => duration,
            None => {
                let detail = "must be greater than zero, as in 15s";
                errors.push(Error::invalid(&path.child(name), value, detail));
                default
            }
        }
    };
    let text = |value: &Option<String>, default: String| {
        value
            .clone()
            .filter(|value| !value.is_empty())
            .unwrap_or(default)
    };
    let read = LeaderElectionSettings {
        leader_elect: form.leader_elect.unwrap_or(true),
        lease_duration: duration(
            "leaseDuration",
            &form.lease_duration,
            defaults.lease_duration,
        ),
        renew_deadline: duration(
            "renewDeadline",
            &form.renew_deadline,
            defaults.renew_deadline,
        ),
        retry_period: duration("retryPeriod", &form.retry_period, defaults.retry_period),
        resource_name: text(&form.resource_name, defaults.resource_name),
        resource_namespace: text(&form.resource_namespace, defaults.resource_namespace),
    };
    if read.leader_elect && read.lease_duration <= read.renew_deadline {
        let shown = form.renew_deadline.as_deref().unwrap_or("10s");
        let detail = "must be greater than `RenewDeadline`";
        errors.push(Error::invalid(&path.child("leaseDuration"), shown, detail));
    }
    // As upstream: the jitter factor of retries is 1.2, so a delayed retry must still meet the renew deadline.
    if read.leader_elect && read.renew_deadline <= read.retry_period.mul_f64(1.2) {
        let shown = form.renew_deadline.as_deref().unwrap_or("10s");
        let detail = "must be greater than 1.2 times `RetryPeriod`";
        errors.push(Error::invalid(&path.child("renewDeadline"), shown, detail));
    }
    let lock = form
        .resource_lock
        .as_deref()
        .filter(|lock| !lock.is_empty());
    if let Some(lock) = lock.filter(|lock| read.leader_elect && *lock != "leases") {
        let detail = "resourceLock value must be \"leases\"";
        errors.push(Error::invalid(&path.child("resourceLock"), lock, detail));
    }
    read
}

fn read_backoff(file: &KubeSchedulerConfiguration, errors: &mut ErrorList) -> (Duration, Duration) {
    let initial = file.pod_initial_backoff_seconds.unwrap_or(1);
    let max = file.pod_max_backoff_seconds.unwrap_or(10);
    if initial <= 0 {
        let path = Path::new("podInitialBackoffSeconds");
        errors.push(Error::invalid(&path, initial, "must be greater than 0"));
    }
    if max < initial {
        errors.push(Error::invalid(
            &Path::new("podMaxBackoffSeconds"),
            max,
            "must be greater than or equal to PodInitialBackoffSeconds",
        ));
    }
    let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    (seconds(initial), seconds(max))
}

fn read_profiles(file: &KubeSchedulerConfiguration, errors: &mut ErrorList) -> Vec<ProfileConfig> {
    let one = [v1::KubeSchedulerProfile::default()];
    let forms = match file.profiles.as_deref() {
        None | Some([]) => &one,
        Some(forms) => forms,
    };
    let path = Path::new("profiles");
    if forms.len() > PROFILES_MAX {
        errors.push(Error::too_many(&path, Some(forms.len()), PROFILES_MAX));
        return Vec::new();
    }
    let all = read_percentage(
        file.percentage_of_nodes_to_score,
        &Path::new("percentageOfNodesToScore"),
        errors,
    );
    let mut profiles: Vec<ProfileConfig> = Vec::new();
    for (index, form) in forms.iter().enumerate() {
        let item = path.index(index);
        let is_only = forms.len() == 1;
        let default = is_only.then(|| DEFAULT_SCHEDULER_NAME.to_owned());
        let name = form.scheduler_name.clone().or(default).unwrap_or_default();
        let name_path = item.child("schedulerName");
        if name.is_empty() {
            errors.push(Error::required(&name_path, ""));
        } else if let Some(other) = profiles.iter().position(|one| one.scheduler_name == name) {
            let other = path.index(other);
            let shown = other.child("schedulerName").to_string();
            errors.push(Error::duplicate(&name_path, shown));
        }
        let own_path = item.child("percentageOfNodesToScore");
        let own = form.percentage_of_nodes_to_score;
        let own = own.map(|own| read_percentage(Some(own), &own_path, errors));
        let configured = form.plugin_config.as_deref().unwrap_or_default();
        profiles.push(ProfileConfig {
            scheduler_name: name,
            percentage_of_nodes_to_score: own.unwrap_or(all),
            plugins: ProfilePlugins::read(form.plugins.as_ref(), &item, errors),
            args: PluginArgs::read(configured, &item.child("pluginConfig"), errors),
        });
    }
    check_queue_sort(forms, &path, errors);
    profiles
}

/// All profiles share one queue, so they must sort it alike.
fn check_queue_sort(forms: &[v1::KubeSchedulerProfile], path: &Path<'_>, errors: &mut ErrorList) {
    let set = |form: &v1::KubeSchedulerProfile| {
        let plugins = form.plugins.as_ref();
        plugins
            .and_then(|plugins| plugins.queue_sort.clone())
            .unwrap_or_default()
    };
    for (index, form) in forms.iter().enumerate().skip(1) {
        if set(form) != set(&forms[0]) {
            errors.push(Error::forbidden(
                &path.index(index).child("plugins").child("queueSort"),
                "must be the same for all profiles",
            ));
        }
    }
}

fn read_percentage(value: Option<i32>, path: &Path<'_>, errors: &mut ErrorList) -> u8 {
    let value = value.unwrap_or_default();
    match u8::try_from(value) {
        Ok(percentage) if percentage <= 100 => percentage,
        _ => {
            errors.push(Error::invalid(path, value, "not in valid range [0-100]"));
            0
        }
    }
}
