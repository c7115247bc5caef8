//! `cell place`: one order by hand.

use super::Output;
use super::ask::{self, Common, DecimalsArgs};
use anyhow::Context;
use conductor_engine::{Body, Decimal, NewOrder, OrderId, OrderKind, Side, TimeInForce, UserId};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  cell place --pair 12 --side ask --price 100.25 --volume 2 --user u-1
  cell place --pair 12 --side bid --market --volume 0.5 --user u-2
  cell place --pair 12 --side bid --price 100 --volume 1 --time-in-force ioc --user u-2

A pair's decimals are fixed by its first order, or by [[pair]] in the settings; an order that says
others is rejected. Exit code 1: the command was rejected, or no reply came.";

/// Place an order and wait for the reply
///
/// The command goes through RabbitMQ with confirms and `mandatory`, as any producer's does. The
/// reply comes once its effect is as durable as the policy asks for.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// bid to buy, ask to sell
    #[arg(long, value_parser = ask::side)]
    side: Side,
    /// The worst price that the order takes
    #[arg(long, value_parser = ask::decimal, allow_negative_numbers = true, required_unless_present = "market")]
    price: Option<Decimal>,
    /// A market order: any price, and nothing of it rests
    #[arg(long, conflicts_with_all = ["price", "time_in_force"])]
    market: bool,
    /// How much
    #[arg(long, value_parser = ask::decimal, allow_negative_numbers = true)]
    volume: Decimal,
    /// Whose order it is; the house's own unless given
    #[arg(long, value_name = "ID", value_parser = ask::user_id)]
    user: Option<UserId>,
    /// The order's id; a new one unless given
    #[arg(long, value_name = "ID", value_parser = ask::order_id)]
    order_id: Option<OrderId>,
    /// gtc: what does not trade rests until it is cancelled; ioc: it is closed
    #[arg(long, value_name = "WORD", value_parser = ask::time_in_force, default_value = "gtc")]
    time_in_force: TimeInForce,
    #[command(flatten)]
    decimals: DecimalsArgs,
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    let head = args.common.head()?;
    let kind = if args.market {
        OrderKind::Market
    } else {
        OrderKind::Limit {
            price: args.price.clone().context("a limit order needs --price")?,
            time_in_force: args.time_in_force,
        }
    };
    let order = NewOrder {
        id: args.order_id.clone().unwrap_or_else(|| head.fresh_order()),
        user: args.user.clone(),
        side: args.side,
        kind,
        volume: args.volume.clone(),
        decimals: head.decimals(args.decimals),
        timestamp: head.timestamp,
    };
    head.send(Body::Place(order), output)
}
