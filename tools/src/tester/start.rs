//! Where a cell stood before the first message, so that one that has worked before can be tested too.
//!
//! The oracle needs little of it: traffic uses pairs that the cell has never held, so that no order of
//! before can meet one of its own, and ids that begin with a prefix of their own. What remains is where
//! each partition counts on from, and how many keys and parked messages were there already.

use super::audit::store::{Found, count_keys};
use crate::client::{ParkedCounts, Store, StoreError, parked_counts};
use conductor_config::Settings;
use conductor_engine::staging::Cursor;
use conductor_engine::{CommandId, PartitionId};
use conductor_io::amqp::AmqpError;
use conductor_io::resp::Reply;
use lapin::Connection;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Where every partition stood.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Start {
    partitions: Vec<Standing>,
}

/// Where one partition stood.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Standing {
    pub(super) sequence: u64,
    priority: u64,
    command: Option<String>,
    pub(super) pairs: BTreeSet<u32>,
    pub(super) keys: Found,
    pub(super) parked: ParkedCounts,
}

/// Why it cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Broker(#[from] AmqpError),
}

impl Start {
    /// Of a cell that is new.
    pub(super) fn nothing(partition_count: u32) -> Self {
        let partitions = (0..partition_count).map(|_| Standing::default()).collect();
        Self { partitions }
    }

    /// Of a cell as it is.
    pub(super) async fn read(
        settings: &Settings,
        connection: &Connection,
    ) -> Result<Self, StartError> {
        let mut start = Self::nothing(settings.partition_count);
        for own in &settings.partitions {
            let mut store = Store::open(settings, own.id).await?;
            let standing = &mut start.partitions[own.id.0 as usize];
            *standing = Standing::read(&mut store).await?;
            standing.parked = parked_counts(connection, own.id).await?;
        }
        Ok(start)
    }

    /// Whether no partition has decided anything.
    pub(super) fn is_new(&self) -> bool {
        self.partitions.iter().all(|it| it.command.is_none())
    }

    /// A pair above all that the cell has held.
    pub(super) fn pairs_end(&self) -> u32 {
        let held = self.partitions.iter().flat_map(|it| it.pairs.last());
        held.max().map_or(0, |pair| pair.saturating_add(1))
    }

    /// One partition.
    pub(super) fn of(&self, partition: PartitionId) -> &Standing {
        &self.partitions[partition.0 as usize]
    }
}

impl Standing {
    async fn read(store: &mut Store) -> Result<Self, StoreError> {
        let Cursor {
            sequence,
            priority,
            command,
        } = store.cursor().await?;
        let pairs = store.keys().pairs().to_owned();
        let replies = store
            .ask_all(|packer| packer.start(b"SMEMBERS").part(pairs.as_bytes()).end())
            .await?;
        let members = replies[0].elements().unwrap_or_default().iter();
        Ok(Self {
            sequence,
            priority,
            command: command.map(|id| id.to_string()),
            pairs: members
                .filter_map(Reply::text)
                .filter_map(|pair| pair.parse().ok())
                .collect(),
            keys: count_keys(store).await?,
            parked: ParkedCounts::default(),
        })
    }

    /// From where the oracle counts on.
    pub(super) fn cursor(&self) -> Cursor {
        let command = self.command.as_deref();
        Cursor {
            sequence: self.sequence,
            priority: self.priority,
            command: command.and_then(|id| CommandId::new(id).ok()),
        }
    }
}
