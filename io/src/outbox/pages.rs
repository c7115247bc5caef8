//! The outbox's admin pages: `/health`, `/ready` and `/metrics`.
//!
//! They change nothing and have no login; they listen on the loopback address unless the settings
//! say otherwise.

use super::line::Line;
use super::report::{Figures, Report, Reports, locked};
use crate::listener::BoundedListener;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::registry::Registry;
use serde::Serialize;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const BLOCKED: &str = "the broker takes no messages; give it memory or disk";

struct Site {
    reports: Reports,
    line: Arc<Line>,
    registry: Registry,
}

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
    lease: bool,
    stream_length: u64,
    unconfirmed: usize,
}

/// Serves the pages until the process is to end.
pub(super) async fn serve(
    listener: TcpListener,
    reports: Reports,
    line: Arc<Line>,
    mut stopping: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let mut registry = Registry::with_prefix("conductor_outbox");
    registry.register_collector(Box::new(Figures(reports.clone())));
    let site = Arc::new(Site {
        reports,
        line,
        registry,
    });
    let router = Router::new()
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .fallback(no_such_page)
        .with_state(site);
    let shutdown = async move {
        // A sender that is gone means the same as being told.
        let _ = stopping.wait_for(|stop| *stop).await;
    };
    axum::serve(BoundedListener::new(listener), router)
        .with_graceful_shutdown(shutdown)
        .await
}

/// The process runs, or this would not be answered.
async fn health() -> Response {
    json(StatusCode::OK, &serde_json::json!({ "status": "ok" }))
}

/// Whether this process publishes the events of all its partitions.
async fn ready(State(site): State<Arc<Site>>) -> Response {
    let blocked = site.line.is_blocked();
    let partitions = site
        .reports
        .iter()
        .map(|report| readiness(&locked(report), blocked));
    let partitions: Vec<_> = partitions.collect();
    let ready = partitions.iter().all(|partition| partition.ready);
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    json(status, &Readiness { ready, partitions })
}

fn readiness(report: &Report, blocked: bool) -> PartitionReadiness {
    let why = match &report.not_ready {
        None if blocked => Some(BLOCKED.to_owned()),
        None => report.silence().map(str::to_owned),
        why => why.clone(),
    };
    PartitionReadiness {
        partition: report.partition.0,
        ready: why.is_none() && report.lease,
        why,
        lease: report.lease,
        stream_length: report.stream_length,
        unconfirmed: report.unconfirmed,
    }
}

async fn metrics(State(site): State<Arc<Site>>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &site.registry) {
        Ok(()) => ([(header::CONTENT_TYPE, METRICS_TYPE)], text).into_response(),
        Err(error) => {
            let body =
                serde_json::json!({ "error": format!("the figures cannot be written: {error}") });
            json(StatusCode::INTERNAL_SERVER_ERROR, &body)
        }
    }
}

async fn no_such_page() -> Response {
    let pages = ["/health", "/ready", "/metrics"];
    let body = serde_json::json!({ "error": "there is no such page", "pages": pages });
    json(StatusCode::NOT_FOUND, &body)
}

/// A JSON body, ended by a line feed for whoever reads it on a terminal.
fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let mut text = serde_json::to_string(body).expect("the pages' bodies have text for keys");
    text.push('\n');
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}
