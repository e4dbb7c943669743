//! The file by which an operator says how pods are scheduled: KubeSchedulerConfiguration, read strictly.
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
mod form;
mod places;
mod plugins;
mod registry;
mod settings;
#[cfg(test)]
mod tests;

use std::time::Duration;

use rhumb_meta::field::{Error, ErrorList, Path};
use rhumb_meta::{FileError, read_file};

pub use args::PluginArgs;
pub use plugins::{Enabled, Plugins};

use form::File;
use places::Places;

const KIND: &str = "KubeSchedulerConfiguration";
const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
pub const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";

/// How many profiles a file can have, and how many errors it is told of at once.
const PROFILES_MAX: usize = 100;
const ERRORS_TOLD_MAX: usize = 10;

/// How pods are scheduled.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub leader_election: LeaderElection,
    /// The file by which the API server is found, if one is named.
    pub kubeconfig: Option<String>,
    pub pod_initial_backoff: Duration,
    pub pod_max_backoff: Duration,
    /// At least one; their names differ.
    pub profiles: Vec<Profile>,
    /// The gate `PodAffinityNamespaceSelector`, which no file speaks of.
    pub namespace_selectors: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderElection {
    /// If not, this process schedules without asking whether another does.
    pub leader_elect: bool,
    pub lease_duration: Duration,
    pub renew_deadline: Duration,
    pub retry_period: Duration,
    pub resource_name: String,
    pub resource_namespace: String,
}

/// How pods are scheduled that name this scheduler.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    pub scheduler_name: String,
    /// How many of all nodes are enough that could be; 0 is as many as the size of the cluster suggests.
    pub percentage_of_nodes_to_score: u8,
    pub plugins: Plugins,
    pub args: PluginArgs,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            leader_election: LeaderElection::default(),
            kubeconfig: None,
            pod_initial_backoff: Duration::from_secs(1),
            pod_max_backoff: Duration::from_secs(10),
            profiles: vec![Profile::default()],
            namespace_selectors: true,
        }
    }
}

impl Default for LeaderElection {
    fn default() -> LeaderElection {
        LeaderElection {
            leader_elect: true,
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            resource_name: "kube-scheduler".to_owned(),
            resource_namespace: "kube-system".to_owned(),
        }
    }
}

impl Default for Profile {
    fn default() -> Profile {
        Profile {
            scheduler_name: DEFAULT_SCHEDULER_NAME.to_owned(),
            percentage_of_nodes_to_score: 0,
            plugins: Plugins::read(None, &Path::NIL, &mut ErrorList::new()),
            args: PluginArgs::default(),
        }
    }
}

impl Config {
    /// Reads a file, in YAML or JSON.
    pub fn read(text: &str) -> Result<Config, FileError> {
        let file: File = read_file(text)?;
        let (kind, version) = (&*file.kind.value, &*file.api_version);
        if kind != KIND || version != API_VERSION {
            let place = &file.kind.referenced;
            let reason =
                format!("its kind is {kind} of {version}, and must be {KIND} of {API_VERSION}");
            return Err(FileError::at((place.line(), place.column()), reason));
        }
        let mut errors = ErrorList::new();
        let config = Config::check(&file, &mut errors);
        match errors.is_empty() {
            true => Ok(config),
            false => Err(told(&errors, text)),
        }
    }

    fn check(file: &File, errors: &mut ErrorList) -> Config {
        let connection = file.client_connection.as_ref();
        let burst = connection.and_then(|connection| connection.burst);
        if let Some(burst) = burst.filter(|burst| *burst < 0) {
            let path = Path::new("clientConnection");
            let detail = "must be non-negative";
            errors.push(Error::invalid(&path.child("burst"), burst, detail));
        }
        let leader_election = leader_election(file.leader_election.as_ref(), errors);
        if let Some(parallelism) = file.parallelism.filter(|parallelism| *parallelism <= 0) {
            let detail = "should be an integer value greater than zero";
            errors.push(Error::invalid(
                &Path::new("parallelism"),
                parallelism,
                detail,
            ));
        }
        let profiles = profiles(file, errors);
        let (initial, max) = backoff(file, errors);
        if file
            .extenders
            .as_ref()
            .is_some_and(|extenders| !extenders.is_empty())
        {
            let detail = "rhumb's scheduler asks no extenders; remove them, or use kube-scheduler";
            errors.push(Error::forbidden(&Path::new("extenders"), detail));
        }
        Config {
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

/// Each error with its place; all of them in one line.
fn told(errors: &ErrorList, text: &str) -> FileError {
    let places = Places::read(text);
    let place = |error: &Error| {
        places
            .as_ref()
            .map_or((0, 0), |places| places.of(&error.field))
    };
    let mut told = errors
        .iter()
        .map(|error| FileError::at(place(error), error.to_string()));
    match told.next() {
        Some(only) if errors.len() == 1 => only,
        first => {
            let all = first.into_iter().chain(told).take(ERRORS_TOLD_MAX);
            let all: Vec<String> = all.map(|error| error.to_string()).collect();
            FileError::whole(all.join("; "))
        }
    }
}

/// Whoever waits longer than a year for a lease waits for something else.
const ELECTION_TIME_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

fn leader_election(form: Option<&form::LeaderElection>, errors: &mut ErrorList) -> LeaderElection {
    let defaults = LeaderElection::default();
    let Some(form) = form else { return defaults };
    let path = Path::new("leaderElection");
    let mut time = |name: &str, said: &Option<String>, default: Duration| {
        let Some(said) = said.as_deref() else {
            return default;
        };
        match rhumb_meta::parse_duration(said) {
            // Nothing at all is the default.
            Some(Duration::ZERO) => default,
            Some(duration) if duration > ELECTION_TIME_MAX => {
                let detail = "must be no more than 8760h";
                errors.push(Error::invalid(&path.child(name), said, detail));
                default
            }
            Some(duration) => duration,
            None => {
                let detail = "must be greater than zero, as in 15s";
                errors.push(Error::invalid(&path.child(name), said, detail));
                default
            }
        }
    };
    let text = |said: &Option<String>, default: String| {
        said.clone()
            .filter(|said| !said.is_empty())
            .unwrap_or(default)
    };
    let read = LeaderElection {
        leader_elect: form.leader_elect.unwrap_or(true),
        lease_duration: time(
            "leaseDuration",
            &form.lease_duration,
            defaults.lease_duration,
        ),
        renew_deadline: time(
            "renewDeadline",
            &form.renew_deadline,
            defaults.renew_deadline,
        ),
        retry_period: time("retryPeriod", &form.retry_period, defaults.retry_period),
        resource_name: text(&form.resource_name, defaults.resource_name),
        resource_namespace: text(&form.resource_namespace, defaults.resource_namespace),
    };
    if read.leader_elect && read.lease_duration <= read.renew_deadline {
        let shown = form.renew_deadline.as_deref().unwrap_or("10s");
        let detail = "must be greater than `RenewDeadline`";
        errors.push(Error::invalid(&path.child("leaseDuration"), shown, detail));
    }
    // As upstream: one that renews late, and a little later still, is in time.
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

fn backoff(file: &File, errors: &mut ErrorList) -> (Duration, Duration) {
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

fn profiles(file: &File, errors: &mut ErrorList) -> Vec<Profile> {
    let one = [form::Profile::default()];
    let forms = match file.profiles.as_deref() {
        None | Some([]) => &one,
        Some(forms) => forms,
    };
    let path = Path::new("profiles");
    if forms.len() > PROFILES_MAX {
        errors.push(Error::too_many(&path, Some(forms.len()), PROFILES_MAX));
        return Vec::new();
    }
    let all = percentage(
        file.percentage_of_nodes_to_score,
        &Path::new("percentageOfNodesToScore"),
        errors,
    );
    let mut profiles: Vec<Profile> = Vec::new();
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
        let own = own.map(|own| percentage(Some(own), &own_path, errors));
        let configured = form.plugin_config.as_deref().unwrap_or_default();
        profiles.push(Profile {
            scheduler_name: name,
            percentage_of_nodes_to_score: own.unwrap_or(all),
            plugins: Plugins::read(form.plugins.as_ref(), &item, errors),
            args: PluginArgs::read(configured, &item.child("pluginConfig"), errors),
        });
    }
    check_queue_sort(forms, &path, errors);
    profiles
}

/// There is one queue for all.
fn check_queue_sort(forms: &[form::Profile], path: &Path<'_>, errors: &mut ErrorList) {
    let set = |form: &form::Profile| {
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

fn percentage(said: Option<i32>, path: &Path<'_>, errors: &mut ErrorList) -> u8 {
    let said = said.unwrap_or_default();
    match u8::try_from(said) {
        Ok(percentage) if percentage <= 100 => percentage,
        _ => {
            errors.push(Error::invalid(path, said, "not in valid range [0-100]"));
            0
        }
    }
}
