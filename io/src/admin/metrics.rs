//! `/metrics` for Prometheus: every figure is labelled with its partition, because a healthy sum
//! hides one market that stands still.
//!
//! Nothing is kept for a scrape: one look at every partition is made and spelled out. Where a core
//! does not answer, what only it knows is left out, and its `conductor_ready` is 0.

mod buckets;
mod figures;

use super::look::{Look, look};
use super::store::{self, StoreMemory};
use super::{Shared, Site, histogram};
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use buckets::{Buckets, Scale};
use conductor_engine::Step;
use conductor_engine::partition::Role;
use figures::{COUNTERS, GAUGES, Value};
use futures_util::future::{join, join_all};
use hdrhistogram::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet, prometheus_text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt::Error;

pub(super) async fn page(State(site): Shared) -> Response {
    (
        [(header::CONTENT_TYPE, prometheus_text::CONTENT_TYPE)],
        text(scrape(&site).await),
    )
        .into_response()
}

async fn scrape(site: &Site) -> Scrape {
    let stores = join_all((0..site.admin.partitions.len()).map(|place| store::memory(site, place)));
    let (looks, stores) = join(look(site), stores).await;
    let shown = looks.into_iter().zip(stores);
    Scrape(shown.map(|(look, store)| Shown { look, store }).collect())
}

fn text(scrape: Scrape) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(scrape));
    let mut text = String::new();
    prometheus_text::encode(&mut text, &registry).expect("writing to a string cannot fail");
    text
}

/// Everything that one scrape shows of one partition.
#[derive(Debug)]
struct Shown {
    look: Look,
    store: Option<StoreMemory>,
}

#[derive(Debug)]
struct Scrape(Vec<Shown>);

type Label = (&'static str, String);

impl Shown {
    fn label(&self) -> Label {
        ("partition", self.look.partition.to_string())
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        self.counters(&mut encoder)?;
        self.gauges(&mut encoder)?;
        self.roles(&mut encoder)?;
        self.states(&mut encoder)?;
        self.steps(&mut encoder)?;
        self.groups(&mut encoder)?;
        self.ages(&mut encoder)
    }
}

impl Scrape {
    fn counters(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        for figure in COUNTERS {
            let mut family =
                encoder.encode_descriptor(figure.name, figure.help, None, MetricType::Counter)?;
            for shown in &self.0 {
                if let Some(count) = (figure.read)(shown) {
                    let label = [shown.label()];
                    let mut metric = family.encode_family(&label)?;
                    metric.encode_counter::<NoLabelSet, u64, f64>(&count, None)?;
                }
            }
        }
        Ok(())
    }

    fn gauges(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        for figure in GAUGES {
            let mut family =
                encoder.encode_descriptor(figure.name, figure.help, None, MetricType::Gauge)?;
            for shown in &self.0 {
                let label = [shown.label()];
                match (figure.read)(shown) {
                    Some(Value::Whole(value)) => gauge(&mut family, &label, value)?,
                    Some(Value::Seconds(value)) => {
                        family.encode_family(&label)?.encode_gauge(&value)?;
                    }
                    None => {}
                }
            }
        }
        Ok(())
    }

    fn roles(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "What this process is to the partition: 1 for one of the roles.";
        let mut family =
            encoder.encode_descriptor("conductor_role", help, None, MetricType::Gauge)?;
        for shown in &self.0 {
            for role in [Role::Active, Role::Standby, Role::Unknown] {
                let label = [shown.label(), ("role", role.name().to_owned())];
                gauge(&mut family, &label, u64::from(shown.look.role() == role))?;
            }
        }
        Ok(())
    }

    fn states(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "1 for the state in which the partition is.";
        let mut family =
            encoder.encode_descriptor("conductor_state", help, None, MetricType::Gauge)?;
        for shown in &self.0 {
            if let Some(status) = shown.look.status() {
                let label = [shown.label(), ("state", status.state.to_owned())];
                gauge(&mut family, &label, 1)?;
            }
        }
        Ok(())
    }

    fn steps(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "How long each step of a command's life takes, in seconds.";
        let kind = MetricType::Histogram;
        let mut family = encoder.encode_descriptor("conductor_step_seconds", help, None, kind)?;
        for shown in &self.0 {
            for step in Step::ALL {
                let times = if histogram::on_io_core(step) {
                    &shown.look.io.steps
                } else if let Ok(report) = &shown.look.report {
                    &report.steps
                } else {
                    continue;
                };
                let label = [shown.label(), ("step", step.name().to_owned())];
                buckets(&mut family, &label, times.of(step), &buckets::STEPS)?;
            }
        }
        Ok(())
    }

    fn groups(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let help = "Commands that shared one transaction.";
        let kind = MetricType::Histogram;
        let mut family = encoder.encode_descriptor("conductor_group_commands", help, None, kind)?;
        for shown in &self.0 {
            if let Ok(report) = &shown.look.report {
                let label = [shown.label()];
                buckets(
                    &mut family,
                    &label,
                    &report.group_commands,
                    &buckets::GROUPS,
                )?;
            }
        }
        Ok(())
    }

    fn ages(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let kind = MetricType::Histogram;
        let help = "Seconds from a command's own time to its delivery, by the producers' clocks.";
        let name = "conductor_command_age_at_delivery_seconds";
        let mut family = encoder.encode_descriptor(name, help, None, kind)?;
        for shown in &self.0 {
            if let Ok(report) = &shown.look.report {
                let label = [shown.label()];
                buckets(&mut family, &label, &report.age_at_delivery, &buckets::AGES)?;
            }
        }
        let help =
            "Seconds from a command's own time to its acknowledgement, by the producers' clocks.";
        let name = "conductor_command_age_at_ack_seconds";
        let mut family = encoder.encode_descriptor(name, help, None, kind)?;
        for shown in &self.0 {
            let label = [shown.label()];
            buckets(
                &mut family,
                &label,
                &shown.look.io.age_at_ack,
                &buckets::AGES,
            )?;
        }
        Ok(())
    }
}

fn gauge(
    family: &mut MetricEncoder<'_>,
    label: &impl EncodeLabelSet,
    value: u64,
) -> Result<(), Error> {
    family.encode_family(label)?.encode_gauge(&value)
}

fn buckets(
    family: &mut MetricEncoder<'_>,
    label: &impl EncodeLabelSet,
    histogram: &Histogram<u64>,
    scale: &Scale,
) -> Result<(), Error> {
    let Buckets { counts, sum, total } = Buckets::of(histogram, scale);
    family
        .encode_family(label)?
        .encode_histogram::<NoLabelSet>(sum, total, &counts, None)
}

#[cfg(test)]
mod tests;
