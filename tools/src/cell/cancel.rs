//! `cell cancel`: takes one order out of the book.

use super::Output;
use super::ask::{self, Common};
use conductor_engine::{Body, OrderId};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Example:
  cell cancel o-1 --pair 12

An order that is closed already stays closed (already-closed); one that this pair never had is an
unknown-order. Neither gives an event.";

/// Cancel an order and wait for the reply
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The order's id
    #[arg(value_name = "ORDER", value_parser = ask::order_id)]
    order: OrderId,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    let order = args.order.clone();
    args.common.head()?.send(Body::Cancel { order }, output)
}
