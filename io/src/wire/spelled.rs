//! The words and numbers of the wire, read straight from the message into their types.
//!
//! A string is judged where it lies and never copied on the way; one with escapes is judged in
//! the parser's own buffer. What a word means is said here once, for the fast pass and for the
//! one that explains a refusal.

use conductor_engine::limits::BATCH_ENTRIES_MAX;
use conductor_engine::{CommandId, Decimal, OrderId, Side, TimeInForce, UserId};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// What a command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandKind {
    Place,
    Cancel,
    Amend,
    Replace,
}

/// Limit or market, before its price is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderType {
    Limit,
    Market,
}

/// A type that the wire spells as a string. The error says what the string does wrong.
pub(super) trait FromText: Sized {
    fn from_text(text: &str) -> Result<Self, String>;
}

/// A type that the wire spells as one of a few words.
trait Word: Copy + 'static {
    const WORDS: &'static [(&'static str, Self)];
}

impl<T: Word> FromText for T {
    fn from_text(text: &str) -> Result<Self, String> {
        let found = T::WORDS.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let words: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
            format!("must be one of {}", words.join(", "))
        })
    }
}

impl Word for CommandKind {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("order.place", CommandKind::Place),
        ("order.cancel", CommandKind::Cancel),
        ("order.amend", CommandKind::Amend),
        ("orders.replace-batch", CommandKind::Replace),
    ];
}

impl Word for OrderType {
    const WORDS: &'static [(&'static str, Self)] =
        &[("limit", OrderType::Limit), ("market", OrderType::Market)];
}

impl Word for Side {
    const WORDS: &'static [(&'static str, Self)] = &[("ask", Side::Ask), ("bid", Side::Bid)];
}

impl Word for TimeInForce {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("gtc", TimeInForce::GoodTillCancelled),
        ("ioc", TimeInForce::ImmediateOrCancel),
    ];
}

macro_rules! from_text {
    ($($type:ty: $read:path),+) => {$(
        impl FromText for $type {
            fn from_text(text: &str) -> Result<Self, String> {
                $read(text).map_err(|problem| problem.to_string())
            }
        }
    )+};
}

from_text!(CommandId: CommandId::new, OrderId: OrderId::new, UserId: UserId::new);
from_text!(Decimal: Decimal::parse);

/// A string of the wire, as its type.
pub(super) struct Spelled<T>(pub(super) T);

impl<'de, T: FromText> Deserialize<'de> for Spelled<T> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_str(SpelledVisitor(PhantomData))
    }
}

struct SpelledVisitor<T>(PhantomData<T>);

impl<T: FromText> Visitor<'_> for SpelledVisitor<T> {
    type Value = Spelled<T>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        T::from_text(text).map(Spelled).map_err(E::custom)
    }
}

/// The entries of a batch; more than a batch may have are not read.
pub(super) struct Entries<W>(pub(super) Vec<W>);

impl<'de, W: Deserialize<'de>> Deserialize<'de> for Entries<W> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_seq(EntriesVisitor(PhantomData))
    }
}

struct EntriesVisitor<W>(PhantomData<W>);

impl<'de, W: Deserialize<'de>> Visitor<'de> for EntriesVisitor<W> {
    type Value = Entries<W>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut read = Vec::new();
        while let Some(entry) = entries.next_element()? {
            if read.len() == BATCH_ENTRIES_MAX {
                return Err(A::Error::custom("too many entries"));
            }
            read.push(entry);
        }
        Ok(Entries(read))
    }
}
