//! Karpenter's flags and variables: read, checked, and put where the controllers look.

use std::fmt::Display;
use std::time::Duration;

use clap::{Args, ValueEnum};
use joiner_core::explain::nearest;

use super::gates::{self, Gates, boolean};
use super::own_options::{Own, OwnArgs};
use crate::cli::{MinValuesPolicy, PreferencePolicy};
use crate::load::SchedulerConfig;
use crate::report::InputError;

/// Flags with the names that Karpenter gives them. Each has a variable; what neither says has the default.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Options that Karpenter has too")]
pub struct OptionArgs {
    /// The port of /metrics on all addresses; 0 takes a free one. [env: METRICS_PORT] [default: 8080]
    #[arg(long, value_name = "PORT")]
    pub metrics_port: Option<u16>,
    /// The port of /healthz and /readyz on all addresses; 0 takes a free one. [env: HEALTH_PROBE_PORT] [default: 8081]
    #[arg(long, value_name = "PORT")]
    pub health_probe_port: Option<u16>,
    /// Answer under /debug/pprof on the metrics port. [env: ENABLE_PROFILING] [default: false]
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub enable_profiling: Option<bool>,
    /// Lead without asking: for one replica only. [env: DISABLE_LEADER_ELECTION] [default: false]
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_leader_election: Option<bool>,
    /// The name of the lease. [env: LEADER_ELECTION_NAME] [default: karpenter-leader-election]
    #[arg(long, value_name = "NAME")]
    pub leader_election_name: Option<String>,
    /// The namespace of the lease and of the record of decisions; without it SYSTEM_NAMESPACE, the namespace of the pod this runs in, or
    /// kube-system. [env: LEADER_ELECTION_NAMESPACE]
    #[arg(long, value_name = "NAMESPACE")]
    pub leader_election_namespace: Option<String>,
    /// Leave out the metrics of single pods, nodes and conditions. [env: DISABLE_CLUSTER_STATE_OBSERVABILITY] [default: false]
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_cluster_state_observability: Option<bool>,
    /// The most writes of one kind (objects, evictions, events) in a second; negative for no limit. [env: KUBE_CLIENT_QPS]
    /// [default: 200, which joiner takes as its own limits]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub kube_client_qps: Option<i64>,
    /// A batch of pending pods closes after so long whatever comes. [env: BATCH_MAX_DURATION] [default: 10s]
    #[arg(long, value_name = "DURATION")]
    pub batch_max_duration: Option<String>,
    /// A batch closes when no pod has come for so long. [env: BATCH_IDLE_DURATION] [default: 1s]
    #[arg(long, value_name = "DURATION")]
    pub batch_idle_duration: Option<String>,
    /// Whether what pods prefer is kept as long as possible or ignored. [env: PREFERENCE_POLICY] [default: Respect]
    #[arg(long, value_enum, ignore_case = true)]
    pub preference_policy: Option<PreferencePolicy>,
    /// What happens when fewer values are there than a pool's minValues asks for. [env: MIN_VALUES_POLICY] [default: Strict]
    #[arg(long, value_enum, ignore_case = true)]
    pub min_values_policy: Option<MinValuesPolicy>,
    /// Features by name, as in `NodeOverlay=true`. [env: FEATURE_GATES]
    #[arg(long, value_name = "NAME=true|false,…")]
    pub feature_gates: Option<String>,
    /// How much is logged. [env: LOG_LEVEL] [default: info]
    #[arg(long, value_enum)]
    pub log_level: Option<LogLevel>,
    /// Where log lines go: `stdout`, `stderr` or files, separated by commas. [env: LOG_OUTPUT_PATHS] [default: stdout]
    #[arg(long, value_name = "LIST")]
    pub log_output_paths: Option<String>,
    /// A file of instance types for KWOK instead of the made-up ones. [env: INSTANCE_TYPES_FILE_PATH]
    #[arg(long, value_name = "FILE")]
    pub instance_types_file_path: Option<String>,
    /// Accepted, has no effect yet. [env: KARPENTER_SERVICE]
    #[arg(long, value_name = "NAME")]
    pub karpenter_service: Option<String>,
    /// Accepted, has no effect yet. [env: KUBE_CLIENT_BURST] [default: 300]
    #[arg(long, value_name = "N")]
    pub kube_client_burst: Option<i64>,
    /// Accepted, has no effect: who stands by is always warm. [env: DISABLE_CONTROLLER_WARMUP] [default: true]
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub disable_controller_warmup: Option<bool>,
    /// Accepted, has no effect yet. [env: MEMORY_LIMIT] [default: -1]
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    pub memory_limit: Option<i64>,
    /// Accepted, has no effect yet. [env: CPU_REQUESTS] [default: 1000]
    #[arg(long, value_name = "MILLICORES", allow_negative_numbers = true)]
    pub cpu_requests: Option<i64>,
    /// Accepted, has no effect: there are no errors of the log itself. [env: LOG_ERROR_OUTPUT_PATHS] [default: stderr]
    #[arg(long, value_name = "LIST")]
    pub log_error_output_paths: Option<String>,
    /// Accepted, has no effect yet. [env: IGNORE_DRA_REQUESTS] [default: true]
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub ignore_dra_requests: Option<bool>,
    /// A scheduler configuration as YAML text; checked, has no effect yet. [env: SCHEDULER_CONFIG]
    #[arg(long, value_name = "YAML")]
    pub scheduler_config: Option<String>,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// What is decided, and what fails.
    Info,
    /// What fails.
    Error,
}

/// What was said.
#[derive(Debug, PartialEq)]
#[allow(missing_docs, reason = "they are the flags")]
pub struct Options {
    pub metrics_port: u16,
    pub health_probe_port: u16,
    pub enable_profiling: bool,
    pub disable_leader_election: bool,
    pub leader_election_name: String,
    /// `None`: the own namespace.
    pub leader_election_namespace: Option<String>,
    pub disable_cluster_state_observability: bool,
    /// `None`: joiner's own limits.
    pub kube_client_qps: Option<i64>,
    pub batch_max: Duration,
    pub batch_idle: Duration,
    pub preference_policy: PreferencePolicy,
    pub min_values_policy: MinValuesPolicy,
    pub gates: Gates,
    pub log_level: LogLevel,
    pub log_output_paths: Vec<String>,
    pub instance_types_file_path: Option<String>,
    /// What only joiner can be told.
    pub own: Own,
    /// Options that are not as they are by default, and have no effect.
    pub ignored: Vec<String>,
}

/// Looks a variable up.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Looks options up: by flag, by variable, by default.
pub(super) struct Lookup<'a> {
    variables: Variables<'a>,
    ignored: Vec<String>,
}

impl Lookup<'_> {
    /// The value of an option.
    fn of<T>(
        &self,
        flag: &str,
        given: Option<T>,
        read: impl Fn(&str) -> Result<T, String>,
        usual: T,
    ) -> Result<T, InputError> {
        if let Some(value) = given {
            return Ok(value);
        }
        let variable = variable_of(flag);
        match (self.variables)(&variable).filter(|text| !text.is_empty()) {
            Some(text) => read(&text).map_err(|why| complaint(&format!("${variable}"), &text, why)),
            None => Ok(usual),
        }
    }

    /// The value of an option whose flag is a text like its variable.
    fn text<T>(
        &self,
        flag: &str,
        given: Option<&String>,
        read: impl Fn(&str) -> Result<T, String>,
        usual: T,
    ) -> Result<T, InputError> {
        match given {
            Some(text) => read(text).map_err(|why| complaint(&format!("--{flag}"), text, why)),
            None => self.of(flag, None, read, usual),
        }
    }

    /// The value of an option that only joiner has: its variable says so.
    pub(super) fn own<T>(
        &self,
        flag: &str,
        given: Option<T>,
        read: impl Fn(&str) -> Result<T, String>,
        usual: T,
    ) -> Result<T, InputError> {
        self.of(&format!("joiner-{flag}"), given, read, usual)
    }

    /// The same for one whose flag is a text like its variable.
    pub(super) fn own_text<T>(
        &self,
        flag: &str,
        given: Option<&String>,
        read: impl Fn(&str) -> Result<T, String>,
        usual: T,
    ) -> Result<T, InputError> {
        match given {
            Some(_) => self.text(flag, given, read, usual),
            None => self.own(flag, None, read, usual),
        }
    }

    /// An option that is checked and has no effect.
    fn without_effect<T: PartialEq + Display>(
        &mut self,
        flag: &str,
        given: Option<T>,
        read: impl Fn(&str) -> Result<T, String>,
        usual: T,
    ) -> Result<(), InputError> {
        let usual_text = usual.to_string();
        let value = self.of(flag, given, read, usual)?;
        if value.to_string() != usual_text {
            self.ignored.push(format!("{flag}={value}"));
        }
        Ok(())
    }
}

impl Options {
    /// Flags first, then variables, then defaults. A variable that is empty says nothing.
    ///
    /// # Errors
    /// A value that makes no sense: which flag or variable, what it says, what it may say.
    pub fn resolve(arguments: &OptionArgs, own: &OwnArgs, variables: Variables) -> Result<Self, InputError> {
        let of = arguments.clone();
        let mut say = Lookup { variables, ignored: Vec::new() };
        let yes_no = |text: &str| boolean(text).ok_or_else(|| "neither `true` nor `false`".to_owned());
        say.without_effect("karpenter-service", of.karpenter_service, any, String::new())?;
        say.without_effect("kube-client-burst", of.kube_client_burst, number, 300)?;
        say.without_effect("disable-controller-warmup", of.disable_controller_warmup, yes_no, true)?;
        say.without_effect("memory-limit", of.memory_limit, number, -1)?;
        let cores = |text: &str| number(text).map(|cores: i64| if cores <= 0 { 1000 } else { cores });
        let given = of.cpu_requests.map(|cores| if cores <= 0 { 1000 } else { cores });
        say.without_effect("cpu-requests", given, cores, 1000)?;
        say.without_effect("log-error-output-paths", of.log_error_output_paths, any, "stderr".to_owned())?;
        say.without_effect("ignore-dra-requests", of.ignore_dra_requests, yes_no, true)?;
        let config = say.text("scheduler-config", of.scheduler_config.as_ref(), any, String::new())?;
        if !config.trim().is_empty() {
            SchedulerConfig::read_text("--scheduler-config", &config)?;
            say.ignored.push("scheduler-config".to_owned());
        }
        let mut gates =
            say.text("feature-gates", of.feature_gates.as_ref(), gates::read, Gates::default())?;
        say.ignored.append(&mut gates.ignored);
        let qps =
            say.of("kube-client-qps", of.kube_client_qps.map(Some), |text| number(text).map(Some), None)?;
        if qps == Some(0) {
            let why = "nothing could be written; give a number above 0, or a negative one for no limit";
            return Err(complaint("kube-client-qps", "0", why.to_owned()));
        }
        let options = Self {
            metrics_port: say.of("metrics-port", of.metrics_port, port, 8080)?,
            health_probe_port: say.of("health-probe-port", of.health_probe_port, port, 8081)?,
            enable_profiling: say.of("enable-profiling", of.enable_profiling, yes_no, false)?,
            disable_leader_election: say.of(
                "disable-leader-election",
                of.disable_leader_election,
                yes_no,
                false,
            )?,
            leader_election_name: say.text(
                "leader-election-name",
                of.leader_election_name.as_ref(),
                object_name,
                "karpenter-leader-election".to_owned(),
            )?,
            leader_election_namespace: say.text(
                "leader-election-namespace",
                of.leader_election_namespace.as_ref().filter(|text| !text.is_empty()),
                |text| object_name(text).map(Some),
                None,
            )?,
            disable_cluster_state_observability: say.of(
                "disable-cluster-state-observability",
                of.disable_cluster_state_observability,
                yes_no,
                false,
            )?,
            // What joiner allows itself is more, and bounded per kind of call.
            kube_client_qps: qps.filter(|qps| *qps != 200),
            batch_max: say.text(
                "batch-max-duration",
                of.batch_max_duration.as_ref(),
                duration,
                Duration::from_secs(10),
            )?,
            batch_idle: say.text(
                "batch-idle-duration",
                of.batch_idle_duration.as_ref(),
                duration,
                Duration::from_secs(1),
            )?,
            preference_policy: say.of(
                "preference-policy",
                of.preference_policy,
                one_of,
                PreferencePolicy::Respect,
            )?,
            min_values_policy: say.of(
                "min-values-policy",
                of.min_values_policy,
                one_of,
                MinValuesPolicy::Strict,
            )?,
            gates,
            log_level: say.of("log-level", of.log_level, one_of, LogLevel::Info)?,
            log_output_paths: say.text(
                "log-output-paths",
                of.log_output_paths.as_ref(),
                list,
                vec!["stdout".to_owned()],
            )?,
            instance_types_file_path: say.text(
                "instance-types-file-path",
                of.instance_types_file_path.as_ref().filter(|text| !text.is_empty()),
                |text| Ok(Some(text.to_owned())),
                None,
            )?,
            own: own.resolve(&say)?,
            ignored: say.ignored,
        };
        let (metrics, health) = (options.metrics_port, options.health_probe_port);
        if metrics == health && metrics != 0 {
            let why = "the same as --metrics-port; give each a port of its own".to_owned();
            return Err(complaint("--health-probe-port", &health.to_string(), why));
        }
        Ok(options)
    }
}

/// The variable of a flag: Karpenter writes it in capitals.
fn variable_of(flag: &str) -> String {
    flag.to_uppercase().replace('-', "_")
}

fn complaint(what: &str, value: &str, why: String) -> InputError {
    InputError {
        path: Some(what.to_owned()),
        value: Some(value.to_owned()),
        message: why,
        ..InputError::default()
    }
}

fn any(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

fn number(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| "not a whole number".to_owned())
}

fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| "not a port; give a number from 0 to 65535".to_owned())
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let read = joiner_api::duration::Duration::parse(text).map_err(|error| error.to_string())?;
    match u64::try_from(read.nanos()) {
        Ok(nanos) => Ok(Duration::from_nanos(nanos)),
        Err(_) => Err("a length of time is not negative; give one such as `10s`".to_owned()),
    }
}

fn list(text: &str) -> Result<Vec<String>, String> {
    let parts: Vec<String> =
        text.split(',').map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect();
    match parts.is_empty() {
        true => Err("give `stdout`, `stderr` or files, separated by commas".to_owned()),
        false => Ok(parts),
    }
}

/// The name of an object, as the API server would have it.
fn object_name(text: &str) -> Result<String, String> {
    let is_edge = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let fits = (1..=253).contains(&text.len())
        && text.chars().all(|letter| is_edge(letter) || letter == '-' || letter == '.')
        && text.starts_with(is_edge)
        && text.ends_with(is_edge);
    match fits {
        true => Ok(text.to_owned()),
        false => Err("not the name of an object; use lower-case letters, digits, `-` and `.`".to_owned()),
    }
}

fn one_of<T: ValueEnum>(text: &str) -> Result<T, String> {
    T::from_str(text, true).map_err(|_| {
        let values: Vec<_> = T::value_variants().iter().filter_map(ValueEnum::to_possible_value).collect();
        let names: Vec<&str> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
        let meant = nearest(&text.to_lowercase(), names.iter().copied());
        let meant = meant.map_or(String::new(), |name| format!("; did you mean `{name}`?"));
        format!("not one of {}{meant}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use joiner_controllers::BreakerSettings;

    use super::*;

    fn resolve(arguments: OptionArgs, variables: &[(&str, &str)]) -> Result<Options, String> {
        let find = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Options::resolve(&arguments, &OwnArgs::default(), &find).map_err(|error| error.to_string())
    }

    #[test]
    fn a_flag_beats_its_variable_and_an_empty_variable_says_nothing() {
        let usual = resolve(OptionArgs::default(), &[]).unwrap();
        assert_eq!((usual.metrics_port, usual.health_probe_port), (8080, 8081));
        assert_eq!(usual.leader_election_name, "karpenter-leader-election");
        assert!(usual.ignored.is_empty(), "{:?}", usual.ignored);
        let empty: Vec<(&str, &str)> = [
            "METRICS_PORT",
            "BATCH_MAX_DURATION",
            "LOG_LEVEL",
            "ENABLE_PROFILING",
            "FEATURE_GATES",
            "LOG_OUTPUT_PATHS",
            "LEADER_ELECTION_NAMESPACE",
        ]
        .map(|name| (name, ""))
        .to_vec();
        assert_eq!(resolve(OptionArgs::default(), &empty), Ok(usual));
        let flags = OptionArgs { metrics_port: Some(1), ..OptionArgs::default() };
        let said = resolve(
            flags,
            &[
                ("METRICS_PORT", "2"),
                ("HEALTH_PROBE_PORT", "3"),
                ("ENABLE_PROFILING", "T"),
                ("BATCH_MAX_DURATION", "1m30s"),
                ("PREFERENCE_POLICY", "Ignore"),
                ("FEATURE_GATES", "NodeOverlay=true,NodeRepair=true"),
                ("MEMORY_LIMIT", "1000000"),
                ("CPU_REQUESTS", "0"),
                ("KUBE_CLIENT_QPS", "20"),
            ],
        )
        .unwrap();
        assert_eq!((said.metrics_port, said.health_probe_port), (1, 3));
        assert!(said.enable_profiling && said.gates.node_overlay);
        assert_eq!(said.batch_max, Duration::from_secs(90));
        assert_eq!(said.preference_policy, PreferencePolicy::Ignore);
        assert_eq!(said.kube_client_qps, Some(20));
        assert_eq!(said.ignored, ["memory-limit=1000000", "NodeRepair=true"]);
    }

    #[test]
    fn what_only_joiner_has_goes_by_variables_of_its_own() {
        let usual = resolve(OptionArgs::default(), &[]).unwrap().own;
        assert_eq!((usual.breakers, usual.strict_limits), (BreakerSettings::default(), false));
        let variables = [
            ("JOINER_STRICT_LIMITS", "1"),
            ("JOINER_RUNAWAY_MACHINES", "5"),
            ("JOINER_RUNAWAY_PAUSE", "90s"),
            ("JOINER_UNREADY_SHARE", "60"),
            ("RUNAWAY_MACHINES", "7"),
        ];
        let said = resolve(OptionArgs::default(), &variables).unwrap().own;
        assert!(said.strict_limits);
        assert_eq!((said.breakers.runaway_machines, said.breakers.unready_percent), (5, 60));
        assert_eq!(said.breakers.runaway_pause, Duration::from_secs(90));
        let flags = OwnArgs { runaway_machines: Some(0), missing_share: Some(150), ..OwnArgs::default() };
        let none = |_: &str| None;
        let error = Options::resolve(&OptionArgs::default(), &flags, &none).unwrap_err().to_string();
        assert_eq!(error, "`--missing-share` is `150`: more than 100 percent; give a number from 0 to 100");
        let error = resolve(OptionArgs::default(), &[("JOINER_UNREADY_NODES", "-1")]).unwrap_err();
        assert_eq!(error, "`$JOINER_UNREADY_NODES` is `-1`: not a whole number of 0 or more");
    }

    #[test]
    fn bad_values_are_one_sentence_with_the_nearest_name() {
        for (variable, value, sentence) in [
            ("METRICS_PORT", "80x", "`$METRICS_PORT` is `80x`: not a port; give a number from 0 to 65535"),
            (
                "METRICS_PORT",
                "65536",
                "`$METRICS_PORT` is `65536`: not a port; give a number from 0 to 65535",
            ),
            ("ENABLE_PROFILING", "yes", "`$ENABLE_PROFILING` is `yes`: neither `true` nor `false`"),
            (
                "LOG_LEVEL",
                "inof",
                "`$LOG_LEVEL` is `inof`: not one of debug, info, error; did you mean `info`?",
            ),
            (
                "PREFERENCE_POLICY",
                "Respct",
                "`$PREFERENCE_POLICY` is `Respct`: not one of respect, ignore; did you mean `respect`?",
            ),
            (
                "BATCH_IDLE_DURATION",
                "1",
                "`$BATCH_IDLE_DURATION` is `1`: duration `1` has a number without a unit; use `h`, `m` or `s`",
            ),
            (
                "BATCH_IDLE_DURATION",
                "-1s",
                "`$BATCH_IDLE_DURATION` is `-1s`: a length of time is not negative; give one such as `10s`",
            ),
            ("MEMORY_LIMIT", "1Gi", "`$MEMORY_LIMIT` is `1Gi`: not a whole number"),
            (
                "FEATURE_GATES",
                "StaticCapacity",
                "`$FEATURE_GATES` is `StaticCapacity`: `StaticCapacity` is no gate with a value; write `StaticCapacity=true` or `StaticCapacity=false`",
            ),
            (
                "LEADER_ELECTION_NAME",
                "My Lease",
                "`$LEADER_ELECTION_NAME` is `My Lease`: not the name of an object; use lower-case letters, digits, `-` and `.`",
            ),
        ] {
            assert_eq!(resolve(OptionArgs::default(), &[(variable, value)]).unwrap_err(), sentence);
        }
        let twice = OptionArgs { metrics_port: Some(8081), ..OptionArgs::default() };
        assert!(resolve(twice, &[]).unwrap_err().contains("each a port of its own"));
        let config =
            OptionArgs { scheduler_config: Some("podTopologySpred: {}".to_owned()), ..OptionArgs::default() };
        assert!(resolve(config, &[]).unwrap_err().contains("podTopologySpred"));
    }
}
