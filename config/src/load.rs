//! From the sources to the settings.
//!
//! The order of strength is environment, file, default. A file that is named and cannot be read
//! stops the boot; without a name there is no file, and nothing is looked for in places that an
//! operator did not name.

use crate::cores::{CoreInventory, CoreMap};
use crate::environment::Environment;
use crate::error::ConfigError;
use crate::judge;
use crate::limits::FILE_BYTES_MAX;
use crate::raw::Raw;
use crate::settings::Settings;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where settings come from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// A settings file named on the command line; stronger than the one the environment names.
    pub file: Option<PathBuf>,
    /// The environment.
    pub environment: Environment,
}

impl Settings {
    /// Reads and judges the settings: all that the outbox and the tools need.
    ///
    /// # Errors
    /// One line that says what to change.
    pub fn load(sources: &Sources) -> Result<Settings, ConfigError> {
        sources.environment.refuse_unknown()?;
        let named = match &sources.file {
            Some(path) => Some(path.clone()),
            None => sources.environment.config_file()?,
        };
        let file = match named {
            Some(path) => read(&path)?,
            None => Raw::default(),
        };
        let environment = sources.environment.raw()?;
        file.refuse_contradictions()?;
        environment.refuse_contradictions()?;
        judge::settings(file, environment)
    }

    /// What a conductor needs: the settings, and a core for the I/O and for each partition.
    ///
    /// # Errors
    /// One line that says what to change.
    pub fn load_with_cores(
        sources: &Sources,
        inventory: &CoreInventory,
    ) -> Result<(Settings, CoreMap), ConfigError> {
        let settings = Settings::load(sources)?;
        let cores = settings
            .cores
            .resolve(settings.partitions.len(), inventory)?;
        Ok((settings, cores))
    }
}

/// Reads the file into the raw shape.
fn read(path: &Path) -> Result<Raw, ConfigError> {
    let unreadable = |reason: String| ConfigError::FileUnreadable {
        path: path.to_owned(),
        reason,
    };
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let mut text = String::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(|error| unreadable(error.to_string()))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(unreadable(
            "it is larger than a settings file can be".to_owned(),
        ));
    }
    toml::from_str(&text).map_err(|error| malformed(path, &text, &error))
}

/// The parser's own display shows the line it failed on, which may hold a password. Only its
/// message is taken, and none at all where the line is about a password.
fn malformed(path: &Path, text: &str, error: &toml::de::Error) -> ConfigError {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let before = &text.as_bytes()[..start];
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let written = text
        .lines()
        .nth(line - 1)
        .unwrap_or_default()
        .to_lowercase();
    let own_words = written.contains("password") || written.contains("uri");
    let message = error.message().lines().collect::<Vec<_>>().join("; ");
    let problem = if own_words && !message.starts_with("unknown field") {
        "write this value as one text in quotes".to_owned()
    } else {
        worded(&message)
    };
    ConfigError::FileMalformed {
        path: path.to_owned(),
        line,
        problem,
    }
}

/// The parser speaks of fields and machine types; an operator knows keys and numbers.
fn worded(message: &str) -> String {
    let worded = message.replace("expected u64", "expected a whole number");
    match worded.strip_prefix("unknown field") {
        Some(rest) => format!("unknown key{}; correct or remove it", rest),
        None => worded,
    }
}
