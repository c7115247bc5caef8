//! `/histogram`: how long each step takes on each core, as JSON or as percentile text.

use super::answer::{self, Parameters, problem};
use super::ask;
use super::look::{Look, look};
use super::{Shared, Site, hgrm};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use conductor_engine::{PartitionId, Step};
use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::{Map, Value};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Histograms {
    unit: &'static str,
    io_core: Option<usize>,
    partitions: Vec<PartitionHistograms>,
}

#[derive(Serialize)]
struct PartitionHistograms {
    partition: u32,
    core: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    steps: Map<String, Value>,
}

#[derive(Serialize)]
struct Percentiles {
    core: Option<usize>,
    count: u64,
    p50: u64,
    p90: u64,
    p99: u64,
    #[serde(rename = "p99.9")]
    p99_9: u64,
    max: u64,
}

pub(super) async fn page(State(site): Shared, parameters: Parameters) -> Response {
    answered(&site, parameters)
        .await
        .unwrap_or_else(|refusal| *refusal)
}

async fn answered(site: &Site, parameters: Parameters) -> Result<Response, Box<Response>> {
    let names = ["format", "partition", "step"];
    let [format, partition, step] = answer::take(parameters, names)?;
    let refuse = |sentence| Err(Box::new(problem(StatusCode::BAD_REQUEST, sentence)));
    match format.as_deref() {
        None | Some("json") if partition.is_some() || step.is_some() => {
            refuse("partition and step choose a histogram for format=hgrm; JSON shows all")
        }
        None | Some("json") => Ok(as_json(site).await),
        Some("hgrm") => as_text(site, partition.as_deref(), step.as_deref()).await,
        Some(_) => refuse("format must be json or hgrm"),
    }
}

async fn as_json(site: &Site) -> Response {
    let io_core = site.admin.io_core;
    let partitions = look(site)
        .await
        .iter()
        .map(|look| of_partition(look, io_core))
        .collect();
    let body = Histograms {
        unit: "nanoseconds",
        io_core,
        partitions,
    };
    answer::json(StatusCode::OK, &body)
}

/// Reply and ack are measured on the I/O core, the other steps on the partition's; where that one
/// does not answer, only these two are there.
fn of_partition(look: &Look, io_core: Option<usize>) -> PartitionHistograms {
    let report = look.report.as_ref();
    let steps = Step::ALL.iter().filter_map(|step| {
        let (core, histogram) = if on_io_core(*step) {
            (io_core, look.io.steps.of(*step))
        } else {
            (look.core, report.ok()?.steps.of(*step))
        };
        let percentiles = serde_json::to_value(percentiles(core, histogram));
        Some((
            step.name().to_owned(),
            percentiles.expect("its keys are text"),
        ))
    });
    PartitionHistograms {
        partition: look.partition.0,
        core: look.core,
        problem: report.err().map(ToString::to_string),
        steps: steps.collect(),
    }
}

fn percentiles(core: Option<usize>, histogram: &Histogram<u64>) -> Percentiles {
    let at = |quantile| histogram.value_at_quantile(quantile);
    Percentiles {
        core,
        count: histogram.len(),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p99_9: at(0.999),
        max: histogram.max(),
    }
}

/// Which core measures the step.
pub(super) const fn on_io_core(step: Step) -> bool {
    matches!(step, Step::Reply | Step::Ack)
}

async fn as_text(
    site: &Site,
    partition: Option<&str>,
    step: Option<&str>,
) -> Result<Response, Box<Response>> {
    let refuse = |sentence: String| Box::new(problem(StatusCode::BAD_REQUEST, sentence));
    let partition = partition
        .and_then(answer::whole_number)
        .and_then(|id| u32::try_from(id).ok());
    let served = site.admin.partitions.iter();
    let handle = partition.map(PartitionId).and_then(|partition| {
        let mut served = served.clone();
        served.find(|handle| handle.partition == partition)
    });
    let handle = handle.ok_or_else(|| {
        let known: Vec<_> = served.map(|handle| handle.partition.to_string()).collect();
        refuse(format!(
            "format=hgrm needs partition= one of those that this process serves: {}",
            known.join(", ")
        ))
    })?;
    let step = Step::ALL
        .into_iter()
        .find(|known| Some(known.name()) == step)
        .ok_or_else(|| {
            let known = Step::ALL.map(Step::name).join(", ");
            refuse(format!("format=hgrm needs step= one of: {known}"))
        })?;
    let text = if on_io_core(step) {
        hgrm::text(site.admin.io.of(handle.partition).steps.of(step))
    } else {
        let unavailable = |silence: ask::Silence| {
            Box::new(problem(
                StatusCode::SERVICE_UNAVAILABLE,
                silence.to_string(),
            ))
        };
        hgrm::text(
            ask::report(handle)
                .await
                .map_err(unavailable)?
                .steps
                .of(step),
        )
    };
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
}
