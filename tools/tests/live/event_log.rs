//! A consumer of every event, which holds the outbox to what it promises.
//!
//! First appearances must come in the order of their sequence without a gap; what comes again must
//! be the same bytes. Anything else is kept as a complaint, which fails the test that looks.

use super::LiveCell;
use conductor_config::BrokerSettings;
use conductor_io::amqp;
use conductor_io::wire::decode_event;
use conductor_tools::client::{Subscription, block_on};
use conductor_tools::testbed::wait_for;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

const PREFETCH: u16 = 1_000;

/// Everything that was published, as far as it has come.
pub(crate) struct EventLog {
    seen: Arc<Mutex<Seen>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

#[derive(Default)]
struct Seen {
    /// Of each partition its events, from the first sequence on.
    partitions: Vec<Vec<Vec<u8>>>,
    repeats: usize,
    complaint: Option<String>,
}

impl EventLog {
    /// Begins to read.
    pub(crate) fn start(cell: &LiveCell) -> Self {
        let partitions = vec![Vec::new(); cell.settings.partition_count as usize];
        let seen = Arc::new(Mutex::new(Seen {
            partitions,
            ..Seen::default()
        }));
        let (stop, stopped) = oneshot::channel();
        let (broker, filled) = (cell.settings.broker.clone(), Arc::clone(&seen));
        let thread = std::thread::spawn(move || block_on(read(broker, filled, stopped)));
        Self {
            seen,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    /// How many events of a partition have come, repeats not counted.
    pub(crate) fn count(&self, partition: u32) -> usize {
        self.seen().partitions[partition as usize].len()
    }

    /// How many events came once more.
    pub(crate) fn repeats(&self) -> usize {
        self.seen().repeats
    }

    /// Waits until so many events of a partition have come; gives all of them, one a line.
    pub(crate) fn wait(&self, partition: u32, wanted: u64, within: Duration) -> Vec<u8> {
        let wanted = usize::try_from(wanted).expect("a test's events can be counted");
        let waited = wait_for(&format!("{wanted} events"), within, || {
            let complaint = self.seen().complaint.clone();
            match self.count(partition) {
                _ if complaint.is_some() => Ok(complaint),
                count if count >= wanted => Ok(None),
                count => Err(format!("{count} came")),
            }
        });
        let complaint = waited.expect("the events come");
        assert_eq!(complaint, None, "the events came as they must");
        let seen = self.seen();
        let lines = seen.partitions[partition as usize].iter();
        lines
            .flat_map(|event| event.iter().chain(b"\n").copied())
            .collect()
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            // A test that fails already has said why.
            if !std::thread::panicking() {
                ended.expect("the reader ends").expect("the reader works");
            }
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn read(
    broker: BrokerSettings,
    seen: Arc<Mutex<Seen>>,
    mut stopped: oneshot::Receiver<()>,
) -> anyhow::Result<()> {
    let connection = amqp::connect(&broker, "test events").await?;
    let mut events = Subscription::open(&connection, LiveCell::EVENTS, PREFETCH).await?;
    loop {
        let delivery = tokio::select! {
            delivery = events.next() => delivery?,
            _ = &mut stopped => break,
        };
        lock(&seen).take(&delivery.data);
        events.acknowledge(&delivery, false).await?;
    }
    events.close().await;
    amqp::close_connection(&connection).await;
    Ok(())
}

impl Seen {
    fn take(&mut self, body: &[u8]) {
        if let Err(complaint) = self.judge(body) {
            self.complaint.get_or_insert(complaint);
        }
    }

    fn judge(&mut self, body: &[u8]) -> Result<(), String> {
        let shown = || String::from_utf8_lossy(body).into_owned();
        let event = decode_event(body).map_err(|error| format!("{error}: {}", shown()))?;
        let place = usize::try_from(event.sequence).map_err(|error| error.to_string())?;
        let known = self.partitions.get_mut(event.partition.0 as usize);
        let known = known.ok_or_else(|| format!("no such partition: {}", shown()))?;
        match place.checked_sub(1).and_then(|place| known.get(place)) {
            Some(first) if first == body => self.repeats += 1,
            Some(_) => {
                return Err(format!(
                    "another event came before with this number: {}",
                    shown()
                ));
            }
            None if place == known.len() + 1 => known.push(body.to_vec()),
            None => return Err(format!("after {} events came {}", known.len(), shown())),
        }
        Ok(())
    }
}
