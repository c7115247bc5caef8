//! `cell amend`: changes one order in the book.

use super::Output;
use super::ask::{self, Common};
use conductor_engine::{Body, Decimal, OrderId};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  cell amend o-1 --pair 12 --volume 1
  cell amend o-1 --pair 12 --price 100.30 --volume 4

The same price with less volume keeps the order's place in the queue. Anything else goes to the end
of its price's queue, and may trade at once as a new order would. An amend whose price or volume
does not fit the order (its decimals, or out of range) is rejected as malformed and changes nothing.";

/// Change an order's price or remaining volume and wait for the reply
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
#[group(id = "change", required = true, multiple = true, args = ["price", "volume"])]
pub(super) struct Args {
    /// The order's id
    #[arg(value_name = "ORDER", value_parser = ask::order_id)]
    order: OrderId,
    #[command(flatten)]
    common: Common,
    /// Its new price
    #[arg(long, value_parser = ask::decimal, allow_negative_numbers = true)]
    price: Option<Decimal>,
    /// Its new remaining volume
    #[arg(long, value_parser = ask::decimal, allow_negative_numbers = true)]
    volume: Option<Decimal>,
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    let body = Body::Amend {
        order: args.order.clone(),
        price: args.price.clone(),
        volume: args.volume.clone(),
    };
    args.common.head()?.send(body, output)
}
