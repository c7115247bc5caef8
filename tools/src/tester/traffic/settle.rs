//! The end of traffic: everything that was published is confirmed and decided, and every event has
//! come.

use super::TrafficError;
use super::board::{Board, State};
use crate::client::{Store, StoreError, block_on};
use conductor_config::Settings;
use conductor_engine::PartitionId;
use conductor_engine::staging::Cursor;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Between two looks into the stores.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long the last answers may take behind the last decision. They are best effort.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// Waits for it.
///
/// # Errors
/// [`TrafficError`] says what is missing.
pub(super) fn settle(
    settings: &Settings,
    board: &Board,
    within: Duration,
) -> Result<(), TrafficError> {
    let give_up = Instant::now() + within;
    let left = || give_up.saturating_duration_since(Instant::now());
    board.wait("every message confirmed", left(), confirmed)?;
    let due = board.look(|state| Due::of(state));
    for own in &settings.partitions {
        let store = block_on(async { Ok(due.stored(settings, own.id, board, give_up).await) });
        store.unwrap_or_else(|error| Err(TrafficError::Failed(error.to_string())))?;
    }
    board.wait("every event in the inbox", left(), arrived)?;
    // Missing answers are counted and are no failure.
    let _ = board.wait("the last answers", left().min(ANSWERS_WITHIN), |state| {
        state
            .under_way
            .is_none()
            .then_some(())
            .ok_or_else(String::new)
    });
    Ok(())
}

fn confirmed(state: &State) -> Result<(), String> {
    if state.confirmed {
        return Ok(());
    }
    let stands = state.under_way.as_deref();
    Err(stands
        .unwrap_or("the last messages are on their way")
        .to_owned())
}

fn arrived(state: &State) -> Result<(), String> {
    for (partition, due) in &state.sequences_due {
        let taken = state.sequences_taken.get(partition).copied();
        let taken = taken.unwrap_or_default();
        if taken < *due {
            return Err(format!(
                "partition {partition}: event {taken} was the last to come, {due} is the last one"
            ));
        }
    }
    Ok(())
}

/// Where every partition must come to stand.
struct Due {
    sequences: BTreeMap<PartitionId, u64>,
    commands: BTreeMap<PartitionId, String>,
}

impl Due {
    fn of(state: &State) -> Self {
        Self {
            sequences: state.sequences_due.clone(),
            commands: state.last_commands.clone(),
        }
    }

    /// Waits until a partition's store stands where it must.
    async fn stored(
        &self,
        settings: &Settings,
        partition: PartitionId,
        board: &Board,
        give_up: Instant,
    ) -> Result<(), TrafficError> {
        let Some(command) = self.commands.get(&partition) else {
            return Ok(());
        };
        let mut store = None;
        let began = Instant::now();
        loop {
            let last = match cursor(settings, partition, &mut store).await {
                Ok(cursor) if self.is_at(partition, command, &cursor) => return Ok(()),
                Ok(cursor) => format!(
                    "partition {partition} stands at event {} and command {}; the last command is \
                     {command}",
                    cursor.sequence,
                    cursor
                        .command
                        .map_or("none".to_owned(), |id| id.to_string())
                ),
                Err(error) => {
                    store = None;
                    error.to_string()
                }
            };
            if Instant::now() >= give_up {
                return Err(TrafficError::TimedOut {
                    what: "every command decided and stored",
                    within: began.elapsed(),
                    last,
                });
            }
            board.wait("no violation", Duration::ZERO, |_| Ok(()))?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn is_at(&self, partition: PartitionId, command: &str, cursor: &Cursor) -> bool {
        let sequence = self.sequences.get(&partition).copied();
        let last = cursor.command.as_ref().map(|id| id.as_str());
        cursor.sequence >= sequence.unwrap_or_default() && last == Some(command)
    }
}

/// Where a partition stands in its store.
async fn cursor(
    settings: &Settings,
    partition: PartitionId,
    store: &mut Option<Store>,
) -> Result<Cursor, StoreError> {
    if store.is_none() {
        *store = Some(Store::open(settings, partition).await?);
    }
    store.as_mut().expect("it was just opened").cursor().await
}
