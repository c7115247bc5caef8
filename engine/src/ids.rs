//! Names: of commands, orders, users, pairs and partitions.
//!
//! An identifier is checked once, where it enters, and is then trusted. Short ones live inside the
//! value, longer ones are shared, so that cloning one never allocates: a match copies the maker's
//! names into its events, and must not pay for that.

use crate::limits::{ID_BYTES_MAX, TIMESTAMP_END};
use smol_str::SmolStr;
use std::fmt;

/// Why a text is no identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// There is nothing in it.
    #[error("is empty; give 1 to 128 characters")]
    Empty,
    /// It is longer than [`ID_BYTES_MAX`].
    #[error("is longer than 128 characters; shorten it")]
    TooLong,
    /// It holds a character outside `A-Z a-z 0-9 . _ : -`.
    #[error("holds a character other than A-Z a-z 0-9 . _ : -")]
    Character,
}

fn checked(text: &str) -> Result<SmolStr, IdError> {
    if text.is_empty() {
        return Err(IdError::Empty);
    }
    if text.len() > ID_BYTES_MAX {
        return Err(IdError::TooLong);
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    if !text.bytes().all(allowed) {
        return Err(IdError::Character);
    }
    Ok(SmolStr::new(text))
}

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(SmolStr);

        impl $name {
            /// Checks the text once.
            ///
            /// # Errors
            /// [`IdError`] says which rule of `[A-Za-z0-9._:-]{1,128}` it breaks.
            pub fn new(text: &str) -> Result<Self, IdError> {
                checked(text).map(Self)
            }

            /// The identifier as it was written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, "{:?}", self.0.as_str())
            }
        }
    };
}

identifier!(
    /// A producer's name for one command; a repeat of it is answered from the record.
    CommandId
);
identifier!(
    /// A producer's name for one order; used once in a partition's life.
    OrderId
);
identifier!(
    /// Whose order it is. The house's own orders have none.
    UserId
);

/// A trading pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PairId(pub u32);

impl PairId {
    /// The partition that owns this pair when there are `count` partitions.
    ///
    /// # Panics
    /// When `count` is zero; a topology has at least one partition.
    pub const fn partition(self, count: u32) -> PartitionId {
        PartitionId(self.0 % count)
    }
}

impl fmt::Display for PairId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// The number of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u32);

impl fmt::Display for PartitionId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// Milliseconds since 1970, below the year 2100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// `None` from the year 2100 on.
    pub const fn new(milliseconds: u64) -> Option<Self> {
        if milliseconds < TIMESTAMP_END {
            Some(Self(milliseconds))
        } else {
            None
        }
    }

    /// Milliseconds since 1970.
    pub const fn milliseconds(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_checked_at_both_sides_of_each_rule() {
        assert_eq!(OrderId::new(""), Err(IdError::Empty));
        assert!(OrderId::new("a").is_ok());
        assert!(OrderId::new(&"a".repeat(ID_BYTES_MAX)).is_ok());
        assert_eq!(
            OrderId::new(&"a".repeat(ID_BYTES_MAX + 1)),
            Err(IdError::TooLong)
        );
        assert!(OrderId::new("A-z_0.9:").is_ok());
        for text in ["a b", "a/b", "ä", "a\n", "{a}"] {
            assert_eq!(OrderId::new(text), Err(IdError::Character), "{text}");
        }
    }

    #[test]
    fn a_timestamp_ends_before_the_year_2100() {
        assert!(Timestamp::new(TIMESTAMP_END - 1).is_some());
        assert!(Timestamp::new(TIMESTAMP_END).is_none());
    }
}
