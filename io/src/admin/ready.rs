//! `/ready`: whether this process can take the next delivery of every partition that it serves.
//!
//! A standby is ready: it can take the next delivery, and will if the active one goes. A core that
//! does not answer is not, whatever it said before.

use super::look::{Look, glance};
use super::{Shared, answer};
use crate::messages::Standing;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;

#[derive(Serialize)]
struct Readiness {
    ready: bool,
    partitions: Vec<PartitionReadiness>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PartitionReadiness {
    partition: u32,
    ready: bool,
    why: Option<String>,
    role: &'static str,
    state: &'static str,
    epoch: Option<u64>,
    durable_sequence: Option<u64>,
    orders: Option<usize>,
    event_stream: Option<u64>,
    broker_connected: bool,
    queue_messages: Option<u64>,
    queue_consumers: Option<u64>,
}

pub(super) async fn page(State(site): Shared) -> Response {
    let partitions: Vec<_> = glance(&site).await.iter().map(readiness).collect();
    let ready = partitions.iter().all(|partition| partition.ready);
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    answer::json(status, &Readiness { ready, partitions })
}

fn readiness(look: &Look<Standing>) -> PartitionReadiness {
    let (status, why) = (look.status(), look.not_ready());
    PartitionReadiness {
        partition: look.partition.0,
        ready: why.is_none(),
        why,
        role: look.role().name(),
        state: status.map_or("unknown", |status| status.state),
        epoch: status.and_then(|status| status.epoch),
        durable_sequence: status.map(|status| status.durable_sequence),
        orders: status.map(|status| status.orders),
        event_stream: status.map(|status| status.event_stream),
        broker_connected: look.io.broker_connected,
        queue_messages: look.io.queue.map(|queue| queue.messages),
        queue_consumers: look.io.queue.map(|queue| queue.consumers),
    }
}
