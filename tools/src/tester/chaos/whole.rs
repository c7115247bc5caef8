//! When the site is whole again: everything runs, every role is filled and every disk is in step.
//!
//! A fault that strikes a site which is not whole would be two faults, and the policy promises
//! nothing for some pairs. So the next one waits for this, and what does not become whole in time
//! is a failure with its story.

use super::kind::Part;
use super::site::{Site, shown};
use crate::testbed::Instance;
use anyhow::Context;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Between two looks at the pages: they cost their process little, and the cores are few.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long one look at the stores, or at the broker's queues, goes on before the processes are
/// looked at again.
const STEP: Duration = Duration::from_secs(3);
/// A node of the broker that lets nobody in for so long after a fault is taken to hang in its start
/// and is started once more, as whoever watches over real nodes would do: RabbitMQ 3.10 can hang
/// for good when it starts while its peers are still noticing that it was gone.
const NODE_STARTS_WITHIN: Duration = Duration::from_secs(45);

/// Waits until the site is whole after faults of these parts; gives the nodes of the broker that
/// hung in their start and were started once more.
///
/// # Errors
/// What is missing still, once the time is over; at once where a process has ended by itself.
pub(super) fn wait_whole(
    site: &Site,
    parts: &[Part],
    within: Duration,
) -> anyhow::Result<Vec<String>> {
    let begin = Instant::now();
    let mut started_again = Vec::new();
    loop {
        let Err(missing) = look(site, parts) else {
            return Ok(started_again);
        };
        let hung = parts.contains(&Part::Broker) && begin.elapsed() > NODE_STARTS_WITHIN;
        if hung && started_again.is_empty() {
            started_again = start_hung_nodes(site)?;
        }
        if let Some(ended) = site.ended() {
            anyhow::bail!(ended);
        }
        anyhow::ensure!(
            begin.elapsed() < within,
            "the site is not whole {} s after the last fault was undone: {missing:#}",
            within.as_secs()
        );
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Starts every node of the broker that lets nobody in; gives their names.
fn start_hung_nodes(site: &Site) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for node in site.servers().brokers().nodes() {
        if node.log_in(node.user(), node.password()).is_err() {
            node.begin_restart()?;
            names.push(node.process().name().to_owned());
        }
    }
    Ok(names)
}

/// One look at everything, what is cheap to see first.
fn look(site: &Site, parts: &[Part]) -> anyhow::Result<()> {
    roles_filled(site).map_err(anyhow::Error::msg)?;
    for partition in site.partitions() {
        let servers = site.servers();
        let stores = servers.wait_whole(partition, STEP);
        stores.with_context(|| format!("the stores of partition {partition} are not whole"))?;
        if parts.contains(&Part::Broker) {
            let in_step = servers
                .brokers()
                .wait_in_step(&Site::queue(partition), STEP);
            in_step.with_context(|| format!("the queue of partition {partition} is not whole"))?;
        }
    }
    Ok(())
}

/// Every process runs, one conductor and one outbox work for each partition, and the others could.
fn roles_filled(site: &Site) -> Result<(), String> {
    for partition in site.partitions() {
        let conductors = all_shown(site.conductors(), partition)?;
        if let Some((name, why)) = first_unready(&conductors) {
            return Err(format!(
                "{name} is not ready for partition {partition}: {why}"
            ));
        }
        one_of("works", &conductors, |it| it["role"] == "active", partition)?;
        one_of(
            "stands by",
            &conductors,
            |it| it["state"] == "standing-by",
            partition,
        )?;
        let outboxes = all_shown(site.outboxes(), partition)?;
        let publishes = |it: &Value| it["lease"] == true && it["ready"] == true;
        one_of("publishes", &outboxes, publishes, partition)?;
    }
    match site.processes().into_iter().find(|it| !it.is_running()) {
        Some(gone) => Err(format!("{} does not run", gone.name())),
        None => Ok(()),
    }
}

type Shown<'a> = (&'a str, Value);

fn all_shown(instances: &[Instance], partition: usize) -> Result<Vec<Shown<'_>>, String> {
    let each = instances.iter().map(|it| {
        let name = it.process().name();
        let page = shown(it, partition).ok_or_else(|| format!("{name} does not answer"))?;
        Ok((name, page))
    });
    each.collect()
}

fn first_unready<'a>(instances: &[Shown<'a>]) -> Option<(&'a str, String)> {
    let (name, page) = instances.iter().find(|(_, page)| page["ready"] != true)?;
    Some((name, page["why"].as_str().unwrap_or("no reason").to_owned()))
}

fn one_of(
    does: &str,
    instances: &[Shown<'_>],
    wanted: impl Fn(&Value) -> bool,
    partition: usize,
) -> Result<(), String> {
    let count = instances.iter().filter(|(_, page)| wanted(page)).count();
    if count == 1 {
        return Ok(());
    }
    let pages: Vec<String> = instances
        .iter()
        .map(|(name, page)| format!("{name} {page}"))
        .collect();
    Err(format!(
        "{count} instead of one {does} for partition {partition}: {}",
        pages.join(", ")
    ))
}

/// What every conductor and outbox says of itself now, for the story of a failure.
pub(super) fn pages_now(site: &Site) -> Vec<String> {
    let all = site.conductors().iter().chain(site.outboxes());
    let say = |it: &Instance| {
        let name = it.process().name();
        let said = match it.page("/ready") {
            Ok((status, body)) => format!("{status} {}", body.trim()),
            Err(error) => error.to_string(),
        };
        format!("{name} /ready: {said}")
    };
    all.map(say).collect()
}
