//! Users and passwords, inline or from a file that only the process may read.

use crate::error::ConfigError;
use crate::keys::{self, Key};
use crate::limits::PASSWORD_FILE_BYTES_MAX;
use crate::raw::{RawBroker, RawSentinel, RawStore};
use crate::secret::Secret;
use crate::settings::Login;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

/// The broker's default user and its password, which it takes from the same machine only.
const BROKER_DEFAULT: &str = "guest";

/// The three names of one login, for the lines that refuse it.
#[derive(Clone, Copy)]
struct LoginKeys {
    username: Key,
    password: Key,
    file: Key,
}

const BROKER: LoginKeys = LoginKeys {
    username: keys::BROKER_USERNAME,
    password: keys::BROKER_PASSWORD,
    file: keys::BROKER_PASSWORD_FILE,
};
const STORE: LoginKeys = LoginKeys {
    username: keys::STORE_USERNAME,
    password: keys::STORE_PASSWORD,
    file: keys::STORE_PASSWORD_FILE,
};
const SENTINEL: LoginKeys = LoginKeys {
    username: keys::SENTINEL_USERNAME,
    password: keys::SENTINEL_PASSWORD,
    file: keys::SENTINEL_PASSWORD_FILE,
};

/// As whom to log in to the broker.
pub(crate) fn broker(raw: &RawBroker) -> Result<(String, Secret), ConfigError> {
    let username = non_empty(BROKER.username, &raw.username)?;
    let password = password(BROKER, &raw.password, &raw.password_file)?;
    let username = username.unwrap_or_else(|| BROKER_DEFAULT.to_owned());
    match password {
        Some(password) => Ok((username, password)),
        None if username == BROKER_DEFAULT => Ok((username, Secret::new(BROKER_DEFAULT))),
        None => Err(missing(BROKER)),
    }
}

/// As whom to log in to the stores.
pub(crate) fn store(raw: &RawStore) -> Result<Option<Login>, ConfigError> {
    login(STORE, &raw.username, &raw.password, &raw.password_file)
}

/// As whom to log in to the Sentinels.
pub(crate) fn sentinel(raw: &RawSentinel) -> Result<Option<Login>, ConfigError> {
    login(SENTINEL, &raw.username, &raw.password, &raw.password_file)
}

fn login(
    keys: LoginKeys,
    username: &Option<String>,
    inline: &Option<Secret>,
    file: &Option<String>,
) -> Result<Option<Login>, ConfigError> {
    let username = non_empty(keys.username, username)?;
    match (password(keys, inline, file)?, username) {
        (Some(password), username) => Ok(Some(Login { username, password })),
        (None, Some(_)) => Err(missing(keys)),
        (None, None) => Ok(None),
    }
}

fn missing(keys: LoginKeys) -> ConfigError {
    let LoginKeys {
        username,
        password,
        file,
    } = keys;
    ConfigError::PasswordMissing {
        username,
        password,
        file,
    }
}

fn non_empty(key: Key, text: &Option<String>) -> Result<Option<String>, ConfigError> {
    match text {
        Some(text) if text.is_empty() => Err(ConfigError::EmptyText { key }),
        other => Ok(other.clone()),
    }
}

fn password(
    keys: LoginKeys,
    inline: &Option<Secret>,
    file: &Option<String>,
) -> Result<Option<Secret>, ConfigError> {
    if let Some(secret) = inline {
        let empty = secret.expose().is_empty();
        return if empty {
            Err(ConfigError::EmptyText { key: keys.password })
        } else {
            Ok(Some(secret.clone()))
        };
    }
    match non_empty(keys.file, file)? {
        Some(path) => from_file(keys.file, PathBuf::from(path)).map(Some),
        None => Ok(None),
    }
}

/// The only line of the file, without its line ending.
fn from_file(key: Key, path: PathBuf) -> Result<Secret, ConfigError> {
    let mut text = String::new();
    let read = File::open(&path).and_then(|file| {
        let bytes_max = u64::try_from(PASSWORD_FILE_BYTES_MAX).unwrap_or(u64::MAX);
        file.take(bytes_max + 1).read_to_string(&mut text)
    });
    if let Err(error) = read {
        return Err(ConfigError::PasswordFileUnreadable {
            key,
            path,
            reason: error.to_string(),
        });
    }
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    let problem = if line.is_empty() {
        "is empty"
    } else if line.len() > PASSWORD_FILE_BYTES_MAX {
        "is too long for a password"
    } else if line.contains(['\n', '\r']) {
        "has more than one line"
    } else {
        return Ok(Secret::new(line));
    };
    Err(ConfigError::PasswordFileContent { key, path, problem })
}
