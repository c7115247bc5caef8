//! The slow pass, over what the fast one would not take: is there a command id to refuse, and
//! what must be changed?
//!
//! Whatever has a usable id becomes a refusal for the record; only what has none is unusable. It
//! runs without recursion into what was sent, and repeats no more of it than a short name, since
//! the sentence is stored and published. It never accepts anything: that is for the fast pass.

use super::decode::Order;
use super::fields::{Fields, Found};
use super::spelled::{CommandKind, FromText, OrderType, Spelled};
use conductor_engine::command::RefusedCommand;
use conductor_engine::limits::{
    AMOUNT_DECIMALS_MAX, BATCH_ENTRIES_MAX, DETAIL_BYTES_MAX, PRICE_DECIMALS_MAX, TIMESTAMP_END,
};
use conductor_engine::{
    CommandId, Decimal, Incoming, OrderId, PairId, Refusal, Side, TimeInForce, Timestamp, UserId,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use std::fmt;

/// Longest part of a name that a sentence repeats, in characters.
const NAME_CHARACTERS_MAX: usize = 40;

/// What a message that is no command is.
pub(super) fn explain(bytes: &[u8]) -> Incoming {
    match usable(bytes) {
        Ok((command, fields)) => Incoming::Refused(refused(command, &fields)),
        Err(reason) => Incoming::Unusable(bounded(reason)),
    }
}

/// The command id and the fields, or why there is no such thing.
fn usable(bytes: &[u8]) -> Result<(CommandId, Fields<'_>), String> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| format!("the message is not UTF-8: {error}"))?;
    let fields = Fields::parse(text).map_err(|error| {
        if error.is_data() {
            "the message is not a JSON object".to_owned()
        } else {
            format!("the message is not JSON: {error}")
        }
    })?;
    let value = match fields.find("commandId") {
        Found::Once(value) => value,
        Found::Never => return Err("the message has no commandId".to_owned()),
        Found::Again => return Err("the message names commandId twice".to_owned()),
    };
    let id = string(value)
        .and_then(|text| CommandId::from_text(&text))
        .map_err(|problem| format!("commandId {problem}"))?;
    Ok((id, fields))
}

fn refused(id: CommandId, fields: &Fields<'_>) -> RefusedCommand {
    let (refusal, detail) = match oversized_batch(fields) {
        Some(entries) => (
            Refusal::BatchTooLarge,
            format!(
                "the batch has {entries} entries; send at most {BATCH_ENTRIES_MAX} in one command"
            ),
        ),
        None => (Refusal::Malformed, sentence(fields)),
    };
    RefusedCommand {
        id,
        pair: fields.read("pairId").map(PairId),
        timestamp: fields.read("timestamp").and_then(Timestamp::new),
        refusal,
        detail: bounded(detail),
    }
}

/// How many entries a batch has, when they are too many; what they are does not matter then.
fn oversized_batch(fields: &Fields<'_>) -> Option<usize> {
    let Spelled(kind) = fields.read::<Spelled<CommandKind>>("type")?;
    let count = |name| fields.read::<Count>(name).map_or(0, |count| count.0);
    let entries = count("cancel") + count("place");
    (kind == CommandKind::Replace && entries > BATCH_ENTRIES_MAX).then_some(entries)
}

/// How many elements an array has, without reading one.
struct Count(usize);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        // A vector of a type without size takes no memory.
        Vec::<IgnoredAny>::deserialize(source).map(|entries| Self(entries.len()))
    }
}

/// What to change, in words.
fn sentence(fields: &Fields<'_>) -> String {
    match command(fields) {
        Err(fault) if fault.path.is_empty() => format!("the command {}", fault.problem),
        Err(fault) => format!("{} {}", fault.path, fault.problem),
        Ok(()) => "the command cannot be read; compare it with the wire's description".to_owned(),
    }
}

/// Where something is wrong, and what.
struct Fault {
    path: String,
    problem: String,
}

impl Fault {
    fn here(problem: impl fmt::Display) -> Self {
        Self {
            path: String::new(),
            problem: problem.to_string(),
        }
    }

    fn within(self, name: &str) -> Self {
        let dot = match self.path.as_bytes().first() {
            None | Some(b'[') => "",
            Some(_) => ".",
        };
        Self {
            path: format!("{name}{dot}{}", self.path),
            problem: self.problem,
        }
    }
}

type Check = fn(&RawValue) -> Result<(), Fault>;

/// One field that an object may have.
struct Rule {
    name: &'static str,
    needed: bool,
    check: Check,
}

const fn needed(name: &'static str, check: Check) -> Rule {
    Rule {
        name,
        needed: true,
        check,
    }
}

const fn optional(name: &'static str, check: Check) -> Rule {
    Rule {
        name,
        needed: false,
        check,
    }
}

const COMMAND: [Rule; 5] = [
    needed("type", spelled::<CommandKind>),
    needed("commandId", spelled::<CommandId>),
    needed("pairId", number_of_32_bits),
    optional("partition", number_of_32_bits),
    needed("timestamp", timestamp),
];
const PLACE: [Rule; 1] = [needed("order", order)];
const CANCEL: [Rule; 1] = [needed("orderId", spelled::<OrderId>)];
const AMEND: [Rule; 3] = [
    needed("orderId", spelled::<OrderId>),
    optional("price", spelled::<Decimal>),
    optional("volume", spelled::<Decimal>),
];
const REPLACE: [Rule; 2] = [
    needed("cancel", |value| each(value, spelled::<OrderId>)),
    needed("place", |value| each(value, order)),
];
const ORDER: [Rule; 9] = [
    needed("id", spelled::<OrderId>),
    needed("side", spelled::<Side>),
    needed("type", spelled::<OrderType>),
    needed("volume", spelled::<Decimal>),
    optional("userId", user),
    needed("priceDecimals", price_decimals),
    needed("amountDecimals", amount_decimals),
    needed("quoteDecimals", amount_decimals),
    needed("timestamp", timestamp),
];
const LIMIT: [Rule; 2] = [
    needed("price", spelled::<Decimal>),
    optional("timeInForce", spelled::<TimeInForce>),
];

fn command(fields: &Fields<'_>) -> Result<(), Fault> {
    apply(fields, &COMMAND[..1])?;
    let Some(Spelled(kind)) = fields.read::<Spelled<CommandKind>>("type") else {
        return Ok(());
    };
    let (noun, body): (_, &[Rule]) = match kind {
        CommandKind::Place => ("order.place", &PLACE),
        CommandKind::Cancel => ("order.cancel", &CANCEL),
        CommandKind::Amend => ("order.amend", &AMEND),
        CommandKind::Replace => ("orders.replace-batch", &REPLACE),
    };
    only(fields, noun, &[&COMMAND, body])?;
    apply(fields, &COMMAND[1..])?;
    apply(fields, body)
}

fn order(value: &RawValue) -> Result<(), Fault> {
    let fields = Fields::parse(value.get())
        .map_err(|_| Fault::here("must be an object; describe an order"))?;
    apply(&fields, &ORDER[2..3])?;
    let (noun, body): (_, &[Rule]) = match fields.read::<Spelled<OrderType>>("type") {
        Some(Spelled(OrderType::Market)) => ("a market order", &[]),
        Some(Spelled(OrderType::Limit)) | None => ("a limit order", &LIMIT),
    };
    only(&fields, noun, &[&ORDER, body])?;
    apply(&fields, &ORDER)?;
    apply(&fields, body)?;
    match serde_json::from_str::<Order>(value.get()) {
        Ok(_) => Ok(()),
        Err(_) => Err(Fault::here("cannot be read as an order")),
    }
}

/// No field has a name that none of the rules knows.
fn only(fields: &Fields<'_>, noun: &str, rules: &[&[Rule]]) -> Result<(), Fault> {
    let known = |name: &str| {
        rules
            .iter()
            .copied()
            .flatten()
            .any(|rule| rule.name == name)
    };
    match fields.names().find(|name| !known(name)) {
        None => Ok(()),
        Some(name) => Err(Fault::here(format_args!(
            "has the field {}, which {noun} does not take; leave it out",
            shown(name)
        ))),
    }
}

/// Every field of the rules is there as often as it must be, and is what it must be.
fn apply(fields: &Fields<'_>, rules: &[Rule]) -> Result<(), Fault> {
    for rule in rules {
        match fields.find(rule.name) {
            Found::Once(value) => (rule.check)(value).map_err(|fault| fault.within(rule.name))?,
            Found::Never if rule.needed => {
                return Err(Fault::here(format_args!(
                    "lacks the field \"{}\"; add it",
                    rule.name
                )));
            }
            Found::Never => {}
            Found::Again => {
                return Err(Fault::here(format_args!(
                    "names the field \"{}\" twice; name it once",
                    rule.name
                )));
            }
        }
    }
    Ok(())
}

fn each(value: &RawValue, check: Check) -> Result<(), Fault> {
    let entries: Vec<&RawValue> = serde_json::from_str(value.get())
        .map_err(|_| Fault::here("must be an array; send an empty one for no entries"))?;
    for (place, entry) in entries.into_iter().enumerate() {
        check(entry).map_err(|fault| fault.within(&format!("[{place}]")))?;
    }
    Ok(())
}

fn spelled<T: FromText>(value: &RawValue) -> Result<(), Fault> {
    let read = string(value).and_then(|text| T::from_text(&text));
    read.map(|_| ()).map_err(Fault::here)
}

fn user(value: &RawValue) -> Result<(), Fault> {
    if value.get() == "null" {
        return Ok(());
    }
    spelled::<UserId>(value)
}

fn string(value: &RawValue) -> Result<String, String> {
    if !value.get().starts_with('"') {
        return Err("must be a JSON string, in quotes".to_owned());
    }
    serde_json::from_str(value.get())
        .map_err(|_| "holds an escape that is no character; leave it out".to_owned())
}

fn number_of_32_bits(value: &RawValue) -> Result<(), Fault> {
    whole_number(value, u64::from(u32::MAX))
}

fn timestamp(value: &RawValue) -> Result<(), Fault> {
    whole_number(value, TIMESTAMP_END - 1)
}

fn price_decimals(value: &RawValue) -> Result<(), Fault> {
    whole_number(value, u64::from(PRICE_DECIMALS_MAX))
}

fn amount_decimals(value: &RawValue) -> Result<(), Fault> {
    whole_number(value, u64::from(AMOUNT_DECIMALS_MAX))
}

fn whole_number(value: &RawValue, max: u64) -> Result<(), Fault> {
    match serde_json::from_str::<u64>(value.get()) {
        Ok(number) if number <= max => Ok(()),
        _ => Err(Fault::here(format_args!(
            "must be a whole JSON number from 0 to {max}, without quotes"
        ))),
    }
}

/// A name in quotes, printable and short.
fn shown(name: &str) -> String {
    let mut shown = String::from('"');
    for character in name.chars().take(NAME_CHARACTERS_MAX) {
        let plain = character.is_ascii_graphic() && !matches!(character, '"' | '\\');
        shown.push(if plain { character } else { '?' });
    }
    let cut = name.chars().nth(NAME_CHARACTERS_MAX).is_some();
    shown.push_str(if cut { "...\"" } else { "\"" });
    shown
}

/// The sentence, cut where a rejection's detail must end.
fn bounded(mut sentence: String) -> String {
    let mut end = sentence.len().min(DETAIL_BYTES_MAX);
    while !sentence.is_char_boundary(end) {
        end -= 1;
    }
    sentence.truncate(end);
    sentence
}
