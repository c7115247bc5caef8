//! One command by hand: to its queue, and its reply back.

use super::{EXIT_DONE, EXIT_FAILED, Output, table};
use crate::client::{Producer, Request, SettingsArgs, block_on};
use anyhow::Context;
use conductor_config::Settings;
use conductor_engine::{
    Body, Command, CommandId, Decimal, OrderId, PairDecimals, PairId, Side, TimeInForce, Timestamp,
    UserId,
};
use conductor_io::wire::{ResultView, decode_result, encode_command};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use std::fmt;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Decimals of a pair for which neither the options nor the settings say any.
const DECIMALS: PairDecimals = PairDecimals {
    price: 2,
    amount: 8,
    quote: 2,
};

/// What every command by hand has.
#[derive(Debug, clap::Args)]
pub(super) struct Common {
    #[command(flatten)]
    settings: SettingsArgs,
    /// The pair
    #[arg(long, value_name = "NUMBER")]
    pair: u32,
    /// The command's id; a new one unless given. A command whose id was decided before is
    /// answered from its record
    #[arg(long, value_name = "ID", value_parser = command_id)]
    command_id: Option<CommandId>,
    /// The command's time in milliseconds since 1970; now unless given
    #[arg(long, value_name = "MS", value_parser = timestamp)]
    timestamp: Option<Timestamp>,
    /// How long to wait for the reply, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    wait_ms: u64,
}

/// A pair's decimals, as options.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Decimals of the pair")]
pub(super) struct DecimalsArgs {
    /// Decimals of a price; by default the configured ones of the pair, else 2
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(0..=12))]
    price_decimals: Option<u8>,
    /// Decimals of a volume; by default the configured ones of the pair, else 8
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(0..=18))]
    amount_decimals: Option<u8>,
    /// Decimals of price times volume; by default the configured ones of the pair, else 2
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(0..=18))]
    quote_decimals: Option<u8>,
}

/// A command that is ready but for its body.
pub(super) struct Head<'a> {
    common: &'a Common,
    settings: Settings,
    /// The command's id.
    pub(super) id: CommandId,
    /// The command's time.
    pub(super) timestamp: Timestamp,
}

impl Common {
    /// Reads the settings and settles id and time.
    pub(super) fn head(&self) -> anyhow::Result<Head<'_>> {
        let timestamp = self.timestamp.map_or_else(now, Ok)?;
        Ok(Head {
            common: self,
            settings: self.settings.load()?,
            id: self
                .command_id
                .clone()
                .unwrap_or_else(|| fresh("c", timestamp, CommandId::new)),
            timestamp,
        })
    }
}

impl Common {
    /// Says what a reply cannot say of itself.
    fn remark(&self, reply: &ResultView, output: &Output) {
        if self.command_id.is_some() {
            output.note(format_args!(
                "if {} was decided before, this is the stored answer, and nothing was done again",
                reply.command_id
            ));
        }
        if let (Some("malformed"), Some(event)) = (reply.reason.as_deref(), reply.first_sequence) {
            output.note(format_args!(
                "what is wrong stands in the detail of event {event} (command.rejected.v1), which \
                 `cell events` shows; an amend is malformed when its price or volume does not fit \
                 the order"
            ));
        }
    }
}

impl Head<'_> {
    /// The pair.
    pub(super) fn pair(&self) -> PairId {
        PairId(self.common.pair)
    }

    /// The pair's decimals: as the options say, else as configured, else the usual ones.
    pub(super) fn decimals(&self, args: DecimalsArgs) -> PairDecimals {
        let configured = self
            .settings
            .pairs
            .get(&self.pair())
            .copied()
            .unwrap_or(DECIMALS);
        PairDecimals {
            price: args.price_decimals.unwrap_or(configured.price),
            amount: args.amount_decimals.unwrap_or(configured.amount),
            quote: args.quote_decimals.unwrap_or(configured.quote),
        }
    }

    /// An order id that nobody has used before.
    pub(super) fn fresh_order(&self) -> OrderId {
        fresh("o", self.timestamp, OrderId::new)
    }

    /// Sends the command with this body and prints its reply.
    pub(super) fn send(self, body: Body, output: &Output) -> anyhow::Result<ExitCode> {
        let pair = self.pair();
        let partition = pair.partition(self.settings.partition_count);
        let command = Command {
            id: self.id,
            pair,
            partition: Some(partition),
            timestamp: self.timestamp,
            body,
        };
        let request = Request {
            partition,
            body: encode_command(&command),
            message_id: Some(command.id.to_string()),
            answered: true,
        };
        let (wait_ms, broker) = (self.common.wait_ms, &self.settings.broker);
        let done = self.common.settings.explained(block_on(async {
            let mut producer = Producer::connect(broker, "cell").await?;
            let done = producer.ask(request, Duration::from_millis(wait_ms)).await;
            producer.close().await;
            Ok(done?)
        }))?;
        let undeclared = "the command did not reach a queue; is the cell set up with `cell init`?";
        done.published.context(undeclared)?;
        let reply = done.reply.with_context(|| {
            format!(
                "the broker has command {} and no reply came within {wait_ms} ms. It will be \
                 decided; `cell status` says what the cell waits for, and the same command with \
                 --command-id {} asks for its reply again",
                command.id, command.id
            )
        })?;
        let reply = Reply::read(reply)?;
        output.result(&reply)?;
        self.common.remark(&reply.view, output);
        Ok(ExitCode::from(if reply.view.status == "rejected" {
            EXIT_FAILED
        } else {
            EXIT_DONE
        }))
    }
}

/// A result: its own bytes as JSON, a table as text.
struct Reply {
    raw: Box<RawValue>,
    view: ResultView,
}

impl Reply {
    fn read(bytes: Vec<u8>) -> anyhow::Result<Self> {
        let strange = "the reply is no result";
        let view = decode_result(&bytes).context(strange)?;
        let raw = RawValue::from_string(String::from_utf8(bytes).context(strange)?);
        Ok(Self {
            raw: raw.context(strange)?,
            view,
        })
    }
}

impl Serialize for Reply {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(out)
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let view = &self.view;
        write!(out, "command {}: {}", view.command_id, view.status)?;
        if let Some(reason) = &view.reason {
            write!(out, " ({reason})")?;
        }
        match (view.first_sequence, view.last_sequence) {
            (Some(first), Some(last)) if first == last => writeln!(out, ", event {first}")?,
            (Some(first), Some(last)) => writeln!(out, ", events {first} to {last}")?,
            _ => writeln!(out, ", no event")?,
        }
        if view.outcomes.is_empty() {
            return Ok(());
        }
        let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let rows = view.outcomes.iter().map(|each| {
            let outcome = (each.order_id.clone(), each.outcome.clone());
            [
                outcome.0,
                outcome.1,
                shown(&each.remaining),
                shown(&each.reason),
            ]
        });
        writeln!(
            out,
            "{}",
            table(["order", "outcome", "remaining", "reason"], rows)
        )
    }
}

/// Milliseconds since 1970, by this machine's clock.
fn now() -> anyhow::Result<Timestamp> {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH)?;
    u64::try_from(elapsed.as_millis())
        .ok()
        .and_then(Timestamp::new)
        .context("this machine's clock is beyond the year 2100; correct it")
}

/// A name that nobody has used before.
fn fresh<T, E: fmt::Debug>(
    kind: &str,
    timestamp: Timestamp,
    name: impl Fn(&str) -> Result<T, E>,
) -> T {
    let text = format!("{kind}-{timestamp}-{:08x}", fastrand::u32(..));
    name(&text).expect("letters, digits and hyphens are a name")
}

fn timestamp(text: &str) -> Result<Timestamp, String> {
    let number = text
        .parse()
        .map_err(|_| "it is no whole number of milliseconds".to_owned())?;
    Timestamp::new(number).ok_or_else(|| "it must lie before the year 2100".to_owned())
}

/// A command's id, as an option.
pub(super) fn command_id(text: &str) -> Result<CommandId, String> {
    CommandId::new(text).map_err(|problem| format!("it {problem}"))
}

/// An order's id, as an option.
pub(super) fn order_id(text: &str) -> Result<OrderId, String> {
    OrderId::new(text).map_err(|problem| format!("it {problem}"))
}

/// A user's id, as an option.
pub(super) fn user_id(text: &str) -> Result<UserId, String> {
    UserId::new(text).map_err(|problem| format!("it {problem}"))
}

/// A number above zero, as an option.
pub(super) fn decimal(text: &str) -> Result<Decimal, String> {
    Decimal::parse(text).map_err(|problem| problem.to_string())
}

/// A side, as an option.
pub(super) fn side(text: &str) -> Result<Side, String> {
    match text {
        "bid" => Ok(Side::Bid),
        "ask" => Ok(Side::Ask),
        _ => Err("write bid (buy) or ask (sell)".to_owned()),
    }
}

/// What becomes of the rest of a limit order, as an option.
pub(super) fn time_in_force(text: &str) -> Result<TimeInForce, String> {
    match text {
        "gtc" => Ok(TimeInForce::GoodTillCancelled),
        "ioc" => Ok(TimeInForce::ImmediateOrCancel),
        _ => Err("write gtc (rests until cancelled) or ioc (the rest is closed)".to_owned()),
    }
}
