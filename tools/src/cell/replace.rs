//! `cell replace`: cancels and places in one command.

use super::Output;
use super::ask::{self, Common, DecimalsArgs, Head};
use anyhow::{Context, bail};
use conductor_engine::{
    Body, Decimal, Incoming, NewOrder, OrderId, OrderKind, PairDecimals, Side, TimeInForce, UserId,
};
use conductor_io::wire::decode;
use serde_json::{Map, Value, json};
use std::process::ExitCode;

const AFTER_HELP: &str = r#"Examples:
  cell replace --pair 12 --cancel o-1 --cancel o-2 --place bid:2@100.25 --place ask:2@100.75
  cell replace --pair 12 --place bid:1@99:my-order --user u-7
  cell replace --pair 12 --place '{"id":"o-9","side":"ask","type":"market","volume":"1"}'

An order to place is SIDE:VOLUME@PRICE, with :ID behind it unless a new id will do; or it is the
order as JSON, where id, type, userId, decimals and timestamp may be left out. The cancels come
first, then the places, in the order given, all in one commit; each has its own outcome."#;

/// Cancel and place orders in one command and wait for the reply
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
#[group(id = "entries", required = true, multiple = true, args = ["cancel", "place"])]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// An order to cancel; may be repeated
    #[arg(long, value_name = "ORDER", value_parser = ask::order_id)]
    cancel: Vec<OrderId>,
    /// An order to place, as SIDE:VOLUME@PRICE[:ID] or as JSON; may be repeated
    #[arg(long, value_name = "WHAT", value_parser = placing)]
    place: Vec<Placing>,
    /// Whose the placed orders are; the house's own unless given
    #[arg(long, value_name = "ID", value_parser = ask::user_id)]
    user: Option<UserId>,
    #[command(flatten)]
    decimals: DecimalsArgs,
}

/// An order to place, before the command's own values fill what it leaves out.
#[derive(Clone, Debug)]
enum Placing {
    Short {
        side: Side,
        volume: Decimal,
        price: Decimal,
        id: Option<OrderId>,
    },
    Json(Map<String, Value>),
}

fn placing(text: &str) -> Result<Placing, String> {
    if text.starts_with('{') {
        let object = serde_json::from_str(text).map_err(|error| format!("as JSON: {error}"))?;
        return Ok(Placing::Json(object));
    }
    let shape = || "write SIDE:VOLUME@PRICE or SIDE:VOLUME@PRICE:ID".to_owned();
    let (side, rest) = text.split_once(':').ok_or_else(shape)?;
    let (volume, rest) = rest.split_once('@').ok_or_else(shape)?;
    let (price, id) = match rest.split_once(':') {
        Some((price, id)) => (price, Some(ask::order_id(id)?)),
        None => (rest, None),
    };
    Ok(Placing::Short {
        side: ask::side(side)?,
        volume: ask::decimal(volume)?,
        price: ask::decimal(price)?,
        id,
    })
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    let head = args.common.head()?;
    let decimals = head.decimals(args.decimals);
    let order = |placing: &Placing| order(placing, args.user.as_ref(), &head, decimals);
    let place = args
        .place
        .iter()
        .map(order)
        .collect::<anyhow::Result<_>>()?;
    let body = Body::Replace {
        cancel: args.cancel.clone(),
        place,
    };
    head.send(body, output)
}

fn order(
    placing: &Placing,
    user: Option<&UserId>,
    head: &Head<'_>,
    decimals: PairDecimals,
) -> anyhow::Result<NewOrder> {
    match placing {
        Placing::Short {
            side,
            volume,
            price,
            id,
        } => Ok(NewOrder {
            id: id.clone().unwrap_or_else(|| head.fresh_order()),
            user: user.cloned(),
            side: *side,
            kind: OrderKind::Limit {
                price: price.clone(),
                time_in_force: TimeInForce::GoodTillCancelled,
            },
            volume: volume.clone(),
            decimals,
            timestamp: head.timestamp,
        }),
        Placing::Json(object) => {
            let defaults = json!({
                "id": head.fresh_order().as_str(),
                "type": "limit",
                "userId": user.map(UserId::as_str),
                "priceDecimals": decimals.price,
                "amountDecimals": decimals.amount,
                "quoteDecimals": decimals.quote,
                "timestamp": head.timestamp.milliseconds(),
            });
            read_order(object, defaults, head)
        }
    }
}

/// Reads an order by the rules of the wire, as the only order of a command.
fn read_order(
    object: &Map<String, Value>,
    mut order: Value,
    head: &Head<'_>,
) -> anyhow::Result<NewOrder> {
    let fields = order.as_object_mut().context("an order is an object")?;
    fields.extend(object.clone());
    let command = json!({
        "type": "order.place",
        "commandId": head.id.as_str(),
        "pairId": head.pair().0,
        "timestamp": head.timestamp.milliseconds(),
        "order": order,
    });
    match decode(command.to_string().as_bytes()) {
        Incoming::Command(command) => match command.body {
            Body::Place(order) => Ok(order),
            _ => bail!("--place takes an order"),
        },
        Incoming::Refused(refused) => bail!("--place: {}", refused.detail),
        Incoming::Unusable(reason) => bail!("--place: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_can_be_written_short() {
        let Ok(Placing::Short {
            side,
            volume,
            price,
            id,
        }) = placing("bid:2@100.25:a:b")
        else {
            panic!("it is an order");
        };
        assert_eq!(side, Side::Bid);
        assert_eq!(
            (volume.to_string(), price.to_string()),
            ("2".into(), "100.25".into())
        );
        assert_eq!(id.expect("it has one").as_str(), "a:b");
        assert!(matches!(
            placing("ask:1@2"),
            Ok(Placing::Short { id: None, .. })
        ));
        assert!(matches!(placing(r#"{"side":"ask"}"#), Ok(Placing::Json(_))));
        for text in [
            "buy:1@2",
            "bid:0@2",
            "bid:1",
            "bid",
            "bid:1@1e3",
            "{",
            "bid:1@2:",
        ] {
            assert!(placing(text).is_err(), "{text}");
        }
    }
}
