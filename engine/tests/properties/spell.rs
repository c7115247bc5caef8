//! Events and outcomes as lines of text, so that an oracle with other types can be compared.

use crate::support::Decided;
use conductor_engine::event::{Outcome, OutcomeKind, Payload, RejectReason, Standing};
use conductor_engine::{Decimal, OrderId};

/// The events and the outcomes of a command.
pub(crate) fn spell_decided(decided: &Decided) -> (Vec<String>, Vec<String>) {
    let events = decided.events.iter().map(|event| spell(&event.payload));
    let outcomes = decided.result.outcomes.iter().map(|outcome: &Outcome| {
        let left = outcome.remaining.as_ref().map(Decimal::to_string);
        outcome_line(
            &outcome.order,
            outcome.kind,
            left.as_deref(),
            outcome.reason,
        )
    });
    (events.collect(), outcomes.collect())
}

fn spell(payload: &Payload) -> String {
    match payload {
        Payload::Deal(deal) => format!(
            "deal {} {} {:?} {:?} {} {} {} {} {} {}",
            deal.maker,
            deal.taker,
            deal.maker_user,
            deal.taker_user,
            deal.taker_side.name(),
            deal.price,
            deal.volume,
            deal.quote_volume,
            deal.maker_remaining,
            deal.taker_remaining,
        ),
        Payload::Rested(standing) => spell_standing("rested", standing),
        Payload::Amended(standing) => spell_standing("amended", standing),
        Payload::Closed(closed) => {
            let reason = closed.reason;
            format!(
                "closed {} {} {}",
                closed.order,
                reason.code(),
                closed.remaining
            )
        }
        Payload::OrderRejected(rejected) => {
            let (order, reason) = (&rejected.order, rejected.reason.code());
            format!("rejected {order} {reason} {}", rejected.remaining)
        }
        Payload::CommandRejected { refusal, .. } => format!("refused {}", refusal.code()),
    }
}

fn spell_standing(what: &str, standing: &Standing) -> String {
    format!(
        "{what} {} {:?} {} {} {} {}",
        standing.order,
        standing.user,
        standing.side.name(),
        standing.price,
        standing.remaining,
        standing.priority,
    )
}

/// One outcome.
pub(crate) fn outcome_line(
    id: &OrderId,
    kind: OutcomeKind,
    left: Option<&str>,
    reason: Option<RejectReason>,
) -> String {
    let reason = reason.map_or("-", RejectReason::code);
    format!("{id} {} {} {reason}", kind.code(), left.unwrap_or("-"))
}
