//! An object's fields, unread: names and raw values, in their order, repeats included.
//!
//! Values are skipped without recursion, so nesting of any depth costs no stack. Only the slow
//! pass, which explains a refusal, uses this.

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The fields of one object.
pub(super) struct Fields<'a>(Vec<(String, &'a RawValue)>);

/// How often a field is there.
pub(super) enum Found<'a> {
    Never,
    Once(&'a RawValue),
    Again,
}

impl<'a> Fields<'a> {
    /// The fields of a whole text.
    pub(super) fn parse(text: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    pub(super) fn find(&self, name: &str) -> Found<'a> {
        let mut found = self.0.iter().filter(|(each, _)| each == name);
        match (found.next(), found.next()) {
            (None, _) => Found::Never,
            (Some((_, value)), None) => Found::Once(value),
            (Some(_), Some(_)) => Found::Again,
        }
    }

    /// The value of a field that is there once and can be read as this type.
    pub(super) fn read<T: Deserialize<'a>>(&self, name: &str) -> Option<T> {
        match self.find(name) {
            Found::Once(value) => serde_json::from_str(value.get()).ok(),
            Found::Never | Found::Again => None,
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Fields(fields))
    }
}
