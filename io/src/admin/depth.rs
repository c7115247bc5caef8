//! `/depth`: the best levels of a pair, from the active process's memory.

use super::answer::{self, Parameters, problem};
use super::ask::{self, ANSWER_TIMEOUT};
use super::{Shared, Site};
use crate::messages::{DepthView, Question};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use conductor_engine::book::PriceLevel;
use conductor_engine::limits::DEPTH_LEVELS_MAX;
use conductor_engine::{Decimal, PairDecimals, PairId, PartitionId};
use serde::Serialize;

const LEVELS_DEFAULT: usize = 10;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Depth {
    pair_id: u32,
    partition: u32,
    bids: Vec<Level>,
    asks: Vec<Level>,
}

#[derive(Serialize)]
struct Level {
    price: String,
    volume: String,
    orders: usize,
}

pub(super) async fn page(State(site): Shared, parameters: Parameters) -> Response {
    answered(&site, parameters)
        .await
        .unwrap_or_else(|refusal| *refusal)
}

async fn answered(site: &Site, parameters: Parameters) -> Result<Response, Box<Response>> {
    let [pair, levels] = answer::take(parameters, ["pairId", "levels"])?;
    let pair = answer::pair(pair.as_deref())?;
    let levels_max = levels_max(levels.as_deref())?;
    let (_, handle) = site.owner_of(pair)?;
    let partition = handle.partition;
    let question = |answer| Question::Depth {
        pair,
        levels_max,
        answer,
    };
    Ok(match ask::ask(handle, ANSWER_TIMEOUT, question).await {
        Ok(Some(view)) => answer::json(StatusCode::OK, &depth(pair, partition, &view)),
        Ok(None) => problem(
            StatusCode::SERVICE_UNAVAILABLE,
            format!(
                "this process does not own partition {partition} and has no book of it; ask the \
                 active one"
            ),
        ),
        Err(silence) => problem(StatusCode::SERVICE_UNAVAILABLE, silence.to_string()),
    })
}

fn levels_max(text: Option<&str>) -> Result<usize, Box<Response>> {
    let Some(text) = text else {
        return Ok(LEVELS_DEFAULT);
    };
    let number = answer::whole_number(text).and_then(|number| usize::try_from(number).ok());
    number
        .filter(|levels| (1..=DEPTH_LEVELS_MAX).contains(levels))
        .ok_or_else(|| {
            let sentence =
                format!("levels must be a whole number from 1 to {DEPTH_LEVELS_MAX}; not {text:?}");
            Box::new(problem(StatusCode::BAD_REQUEST, sentence))
        })
}

fn depth(pair: PairId, partition: PartitionId, view: &DepthView) -> Depth {
    let side = |levels: &[PriceLevel]| {
        let decimals = view.decimals;
        decimals.map_or_else(Vec::new, |decimals| {
            levels.iter().map(|each| level(each, decimals)).collect()
        })
    };
    let (pair_id, partition) = (pair.0, partition.0);
    Depth {
        pair_id,
        partition,
        bids: side(&view.bids),
        asks: side(&view.asks),
    }
}

fn level(level: &PriceLevel, decimals: PairDecimals) -> Level {
    Level {
        price: Decimal::of_price(level.price, decimals).to_string(),
        volume: Decimal::exact(level.lots, decimals.amount).to_string(),
        orders: level.orders,
    }
}
