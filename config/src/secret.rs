//! A password that cannot be printed by accident.
//!
//! Settings, errors and logs go through `Debug` and `Display`; both show the same fixed word here.
//! The one way to the text is [`Secret::expose`], which is easy to find in a review.

use serde::de::{Deserialize, Deserializer, Error};
use std::fmt;

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides the text from now on.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that logs in with it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("<hidden>")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("<hidden>")
    }
}

impl<'de> Deserialize<'de> for Secret {
    /// Reads through a generic value, because the refusal of a wrong type would otherwise quote
    /// the value, as it does for a password that somebody wrote without its quotes.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(deserializer) {
            Ok(toml::Value::String(text)) => Ok(Self(text)),
            Ok(_) | Err(_) => Err(D::Error::custom("a password is a text; put it in quotes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_debug_nor_display_shows_the_text() {
        let secret = Secret::new("hunter2");
        assert_eq!(
            format!("{secret} {secret:?} {:?}", Some(&secret))
                .matches("hunter2")
                .count(),
            0
        );
        assert_eq!(format!("{secret}{secret:?}"), "<hidden><hidden>");
        assert_eq!(secret.expose(), "hunter2");
    }
}
