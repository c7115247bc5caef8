//! The settings of a tool: the same file and variables as a conductor's.

use conductor_config::{ConfigError, Environment, Settings, Sources, keys};
use conductor_engine::PartitionId;
use conductor_io::amqp::AmqpError;
use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;

/// How the variables begin that say where a cell is.
const PREFIXES: [&str; 4] = ["CONDUCTOR_CONFIG", "MATCHING_", "REDIS_", "RABBITMQ_"];
/// What is said when nobody has.
pub const UNNAMED: &str = "no settings are named, so a cell with the default settings is looked for \
    on this machine; name a file with --config FILE or the variable CONDUCTOR_CONFIG, as `cell up` \
    prints it";

/// Where the settings are. Flattened into the arguments of every command that needs a server.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SettingsArgs {
    /// The settings file, the same as a conductor's; without it CONDUCTOR_CONFIG names one.
    /// Variables of the environment are stronger than the file
    #[arg(long, value_name = "FILE", help_heading = "Where the cell is")]
    pub config: Option<PathBuf>,
}

impl SettingsArgs {
    /// The settings as they stand.
    ///
    /// # Errors
    /// One line that says what to change.
    pub fn load(&self) -> Result<Settings, ConfigError> {
        load(self.config.clone(), None)
    }

    /// Whether anybody has said where the cell is.
    pub fn are_named(&self) -> bool {
        let of_ours = |name: OsString| {
            let name = name.to_string_lossy().into_owned();
            PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        };
        self.config.is_some() || std::env::vars_os().any(|(name, _)| of_ours(name))
    }

    /// Adds to what the broker would not do that nobody has said where it is.
    ///
    /// # Errors
    /// Those of the result.
    pub fn explained<T>(&self, result: anyhow::Result<T>) -> anyhow::Result<T> {
        result.map_err(|error| {
            let of_broker = error.chain().any(|cause| cause.is::<AmqpError>());
            if of_broker && !self.are_named() {
                error.context(UNNAMED)
            } else {
                error
            }
        })
    }

    /// The settings for these partitions, whichever a conductor here would serve: a tool may look
    /// after a partition that another process owns.
    ///
    /// # Errors
    /// One line that says what to change.
    pub fn load_for(&self, partitions: &[PartitionId]) -> Result<Settings, ConfigError> {
        load(self.config.clone(), Some(partitions))
    }
}

/// Reads the settings from a file and this process's environment, for the partitions that they
/// name or for others.
///
/// # Errors
/// One line that says what to change.
pub fn load(
    file: Option<PathBuf>,
    partitions: Option<&[PartitionId]>,
) -> Result<Settings, ConfigError> {
    let mut pairs: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    if let Some(partitions) = partitions {
        let listed: Vec<String> = partitions.iter().map(ToString::to_string).collect();
        // A later pair of the same name wins.
        pairs.push((
            keys::PARTITIONS.environment().into(),
            listed.join(",").into(),
        ));
    }
    let environment: Environment = pairs.into_iter().collect();
    Settings::load(&Sources { file, environment })
}

/// Runs a future to its end on a runtime of one thread: a tool is a client, and the cores belong
/// to those that it talks to.
///
/// # Errors
/// The future's own, or that there can be no runtime.
pub fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build()?.block_on(future)
}
