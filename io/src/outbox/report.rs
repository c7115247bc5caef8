//! What each partition's task says of itself, and the figures made of it.

use conductor_engine::PartitionId;
use conductor_engine::outbox::{Counters, Outbox};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Where one partition stands.
#[derive(Clone, Debug)]
pub(super) struct Report {
    /// Which partition.
    pub(super) partition: PartitionId,
    /// Whether this worker has its lease.
    pub(super) lease: bool,
    /// Why it does not publish, where it does not.
    pub(super) not_ready: Option<String>,
    /// What was counted.
    pub(super) counters: Counters,
    /// Entries in the stream, when last read.
    pub(super) stream_length: u64,
    /// Publications that wait for their confirm.
    pub(super) unconfirmed: usize,
    /// Places where the sequence did not go on by one.
    pub(super) sequence_gaps: u64,
    /// Since when the store has owed an answer.
    pub(super) asked_since: Option<Instant>,
    /// Since when the broker has owed a confirm and given none.
    pub(super) published_since: Option<Instant>,
}

/// How long the store may be silent, a wait for events of a second among it, before this process
/// is not ready.
const STORE_SILENT: Duration = Duration::from_millis(2_500);
/// How long the broker may confirm nothing of what it was given.
const BROKER_SILENT: Duration = Duration::from_secs(5);

/// All partitions of the process.
pub(super) type Reports = Vec<Arc<Mutex<Report>>>;

impl Report {
    /// A partition that has not begun.
    pub(super) fn new(partition: PartitionId) -> Self {
        Self {
            partition,
            lease: false,
            not_ready: Some("starting".to_owned()),
            counters: Counters::default(),
            stream_length: 0,
            unconfirmed: 0,
            sequence_gaps: 0,
            asked_since: None,
            published_since: None,
        }
    }

    /// Why this process does not publish now, as far as a clock alone tells it.
    pub(super) fn silence(&self) -> Option<&'static str> {
        let longer = |since: Option<Instant>, limit| since.is_some_and(|it| it.elapsed() > limit);
        if longer(self.asked_since, STORE_SILENT) {
            Some("the store has not answered for more than 2.5 s")
        } else if longer(self.published_since, BROKER_SILENT) {
            Some("the broker has confirmed nothing for more than 5 s")
        } else {
            None
        }
    }

    /// Takes over what the machine says.
    pub(super) fn follow(&mut self, machine: &Outbox) {
        let published = self.counters.published;
        self.lease = machine.holds_lease();
        self.counters = machine.counters();
        self.stream_length = machine.stream_length();
        self.unconfirmed = machine.unconfirmed();
        if self.unconfirmed == 0 {
            self.published_since = None;
        } else if self.published_since.is_none() || self.counters.published != published {
            self.published_since = Some(Instant::now());
        }
        if self.not_ready.as_deref() != machine.not_ready() {
            self.not_ready = machine.not_ready().map(str::to_owned);
        }
    }
}

/// Locks a report; nobody panics while holding one.
pub(super) fn locked(report: &Mutex<Report>) -> MutexGuard<'_, Report> {
    report.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the figures at the moment they are asked for.
#[derive(Debug)]
pub(super) struct Figures(pub(super) Reports);

type Reading = (&'static str, &'static str, fn(&Report) -> u64);

const COUNTERS: [Reading; 6] = [
    ("published", "Events that the broker confirmed", |it| {
        it.counters.published
    }),
    (
        "retried",
        "Publications that failed and are tried again",
        |it| it.counters.retried,
    ),
    ("dead_lettered", "Entries that were no events", |it| {
        it.counters.dead_lettered
    }),
    ("leases_taken", "Times that the lease was taken", |it| {
        it.counters.leases
    }),
    (
        "waits_below_policy",
        "Waits that ended with too few disks",
        |it| it.counters.waits_below_policy,
    ),
    (
        "sequence_gaps",
        "Places where the sequence did not go on by one",
        |it| it.sequence_gaps,
    ),
];

const GAUGES: [Reading; 4] = [
    (
        "stream_length",
        "Entries in the event stream, when last read",
        |it| it.stream_length,
    ),
    (
        "unconfirmed",
        "Publications that wait for their confirm",
        |it| it.unconfirmed as u64,
    ),
    ("lease", "1 while this process has the lease", |it| {
        u64::from(it.lease)
    }),
    ("ready", "1 while this process publishes or would", |it| {
        u64::from(it.not_ready.is_none() && it.silence().is_none())
    }),
];

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let reports: Vec<Report> = self.0.iter().map(|report| locked(report).clone()).collect();
        for (name, help, reading) in COUNTERS {
            let kind = prometheus_client::metrics::MetricType::Counter;
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for report in &reports {
                let labels = [("partition", report.partition.to_string())];
                ConstCounter::new(reading(report)).encode(family.encode_family(&labels)?)?;
            }
        }
        for (name, help, reading) in GAUGES {
            let kind = prometheus_client::metrics::MetricType::Gauge;
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            for report in &reports {
                let labels = [("partition", report.partition.to_string())];
                let value = i64::try_from(reading(report)).unwrap_or(i64::MAX);
                ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
