//! The two records of a partition that no conductor may write: what it is, and that it may go on.
//!
//! A topology is written once and never changed: producers and consumers that disagree about the
//! count would put one pair in front of two writers. A halt is lifted by a person and by nothing
//! else. Both count only when as many disks have them as the policy asks for.

use conductor_config::limits::PARTITION_COUNT;
use conductor_config::{Durability, Settings};
use conductor_engine::PartitionId;
use conductor_engine::partition::{Durability as Needed, Guards, HaltRecord, Topology};
use conductor_engine::staging::Cursor;
use conductor_io::keys::{Keys, field};
use conductor_io::resp::{Packer, Reply};
use conductor_io::store::checks::{self, CheckError};
use conductor_io::store::discover::{DiscoverError, Logins};
use conductor_io::store::over_tokio::{self, Socket};
use conductor_io::store::{Link, LinkError, meta, unexpected};
use conductor_io::wire::{RecordError, read_cursor};
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;

/// How long one connection may take to open, and one answer to come.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How long a replica may take to follow before a write is said not to be on its disk.
const DISKS_WITHIN: Duration = Duration::from_secs(20);
/// How often a write that another one crossed is tried again.
const TRIES_MAX: usize = 5;

/// Why a partition's records could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The partition is not among those of the settings.
    #[error("the settings name no store of partition {0}; add it to {key}",
        key = conductor_config::keys::PARTITIONS)]
    NoPartition(PartitionId),
    /// There is no primary to talk to.
    #[error("partition {partition} has no primary that can be used: {error}")]
    NotFound {
        /// The partition.
        partition: PartitionId,
        /// What happened.
        error: DiscoverError,
    },
    /// The link failed, or the store refused.
    #[error("the store of partition {partition} failed: {error}")]
    Link {
        /// The partition.
        partition: PartitionId,
        /// What happened.
        error: LinkError,
    },
    /// A record cannot be read.
    #[error("{key} cannot be read: {error}")]
    Record {
        /// Its key.
        key: String,
        /// What is wrong with it.
        error: RecordError,
    },
    /// The store cannot keep the policy's promise as it is set up.
    #[error("{0}")]
    Misconfigured(String),
    /// It is written, but on too few disks.
    #[error("it is written but not yet safe: {0}; then run this again")]
    NotDurable(String),
    /// The store belongs to another cell.
    #[error(
        "the store at {address} is already set up as {found}, and the settings say {wanted}; correct \
         the settings or the store's address. A topology is never overwritten: another count is \
         another cell with a store of its own"
    )]
    OtherTopology {
        /// Where.
        address: String,
        /// What it is.
        found: Topology,
        /// What it should be.
        wanted: Topology,
    },
    /// The server holds another partition, of a cell that is cut otherwise.
    #[error(
        "the server at {address} already holds {found}, and the settings say {wanted}; correct the \
         settings or the store's address: partitions of one server are of one cell, and agree on the \
         count and the prefetch"
    )]
    OtherCell {
        /// Where.
        address: String,
        /// What it holds already.
        found: Topology,
        /// What it should hold.
        wanted: Topology,
    },
    /// Somebody else wrote the same record again and again.
    #[error("another process keeps writing the same record; end it and run this again")]
    Crossed,
}

impl StoreError {
    /// Whether a setting must change before it can work.
    pub const fn is_of_settings(&self) -> bool {
        matches!(
            self,
            StoreError::Misconfigured(_)
                | StoreError::NoPartition(_)
                | StoreError::OtherTopology { .. }
                | StoreError::OtherCell { .. }
        )
    }
}

/// Whether a topology had to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyWritten {
    /// There was none.
    Now,
    /// The same was there.
    Before,
}

/// The primary of one partition.
#[derive(Debug)]
pub struct Store {
    link: Link<Socket>,
    keys: Keys,
    address: String,
    durability: Durability,
    wanted: Topology,
}

impl Store {
    /// Connects to a partition's primary.
    ///
    /// # Errors
    /// [`StoreError::NoPartition`] and [`StoreError::NotFound`].
    pub async fn open(settings: &Settings, partition: PartitionId) -> Result<Self, StoreError> {
        let known = settings.partitions.iter().find(|it| it.id == partition);
        let own = known.ok_or(StoreError::NoPartition(partition))?;
        let logins = Logins {
            store: settings.store_login.as_ref(),
            sentinel: settings.sentinel_login.as_ref(),
        };
        let found = over_tokio::primary(&own.store, logins, ANSWER_WITHIN).await;
        let primary = found.map_err(|error| StoreError::NotFound { partition, error })?;
        Ok(Self {
            link: primary.link,
            keys: Keys::new(partition),
            address: primary.address,
            durability: settings.durability,
            wanted: settings.topology(partition),
        })
    }

    /// Host and port of the primary.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The records that every owner honours.
    ///
    /// # Errors
    /// [`StoreError::Link`].
    pub async fn guards(&mut self) -> Result<Guards, StoreError> {
        let partition = self.keys.partition();
        let asking = limited(ANSWER_WITHIN, meta::guards(&mut self.link, &self.keys)).await;
        asking.map_err(|error| StoreError::Link { partition, error })
    }

    /// Where the partition stands; at nothing before its first command.
    ///
    /// # Errors
    /// [`StoreError::Link`]; [`StoreError::Record`] when it cannot be read.
    pub async fn cursor(&mut self) -> Result<Cursor, StoreError> {
        let cursor = self.keys.cursor().to_owned();
        let replies = self
            .ask_all(|packer| packer.start(b"HGETALL").part(cursor.as_bytes()).end())
            .await?;
        let read =
            read_cursor(&replies[0]).map_err(|error| StoreError::Record { key: cursor, error })?;
        Ok(read.unwrap_or_default())
    }

    /// The partition's keys.
    pub const fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Sends several reads at once and gives all their replies.
    ///
    /// # Errors
    /// [`StoreError::Link`]; a refusal of any of them too. The store is not to be used afterwards.
    pub async fn ask_all(
        &mut self,
        pack: impl FnOnce(&mut Packer<'_>),
    ) -> Result<Vec<Reply>, StoreError> {
        let partition = self.keys.partition();
        let failed = |error| StoreError::Link { partition, error };
        let asking = limited(ANSWER_WITHIN, self.link.ask_all(pack)).await;
        let replies = asking.map_err(failed)?;
        match replies.iter().any(|reply| reply.first_error().is_some()) {
            true => Err(failed(refused("a read", &replies))),
            false => Ok(replies),
        }
    }

    /// Why the partition is halted, if it is.
    ///
    /// # Errors
    /// [`StoreError::Link`].
    pub async fn halted(&mut self) -> Result<Option<HaltRecord>, StoreError> {
        Ok(self.guards().await?.halted)
    }

    /// Writes the topology where there is none, and waits until it is safe.
    ///
    /// # Errors
    /// [`StoreError::OtherTopology`] when another one is there; it stays.
    pub async fn write_topology(&mut self) -> Result<TopologyWritten, StoreError> {
        for _ in 0..TRIES_MAX {
            let partition = self.keys.partition();
            let failed = |error| StoreError::Link { partition, error };
            // From here on a write by another process stops ours.
            let watch: [&[u8]; 2] = [b"WATCH", self.keys.topology().as_bytes()];
            limited(ANSWER_WITHIN, self.link.ask(&watch))
                .await
                .map_err(failed)?;
            if let Some(found) = self.guards().await?.topology {
                if found != self.wanted {
                    let (address, wanted) = (self.address.clone(), self.wanted);
                    return Err(StoreError::OtherTopology {
                        address,
                        found,
                        wanted,
                    });
                }
                self.wait_for_disks().await?;
                return Ok(TopologyWritten::Before);
            }
            self.compare_with_neighbours().await?;
            if self.try_write_topology().await.map_err(failed)? {
                self.wait_for_disks().await?;
                return Ok(TopologyWritten::Now);
            }
        }
        Err(StoreError::Crossed)
    }

    /// Looks at the topologies of all other partitions that this server may hold. Each has a key of
    /// its own, so a server that was given to the wrong partition, or to another cell, would pass
    /// for an empty one.
    async fn compare_with_neighbours(&mut self) -> Result<(), StoreError> {
        let (partition, wanted) = (self.keys.partition(), self.wanted);
        let counts = PARTITION_COUNT.most;
        let numbers = (0..u32::try_from(counts).unwrap_or(u32::MAX)).map(PartitionId);
        let others: Vec<Keys> = numbers
            .filter(|number| *number != partition)
            .map(Keys::new)
            .collect();
        let asking = self.link.ask_all(|packer| {
            for keys in &others {
                packer.start(b"HGETALL").part(keys.topology().as_bytes());
                packer.end();
            }
        });
        let replies = limited(ANSWER_WITHIN, asking).await;
        let replies = replies.map_err(|error| StoreError::Link { partition, error })?;
        for (keys, reply) in others.iter().zip(&replies) {
            let found = meta::topology(keys, reply);
            let found = found.map_err(|error| StoreError::Link { partition, error })?;
            let differs = |found: &Topology| {
                found.partition_count != wanted.partition_count || found.prefetch != wanted.prefetch
            };
            if let Some(found) = found.filter(differs) {
                let address = self.address.clone();
                return Err(StoreError::OtherCell {
                    address,
                    found,
                    wanted,
                });
            }
        }
        Ok(())
    }

    /// Writes the topology unless it changed since it was watched.
    async fn try_write_topology(&mut self) -> Result<bool, LinkError> {
        let (keys, wanted) = (&self.keys, self.wanted);
        let writing = self.link.ask_all(|packer| {
            packer.start(b"MULTI").end();
            packer.start(b"HSET").part(keys.topology().as_bytes());
            packer
                .part(field::PARTITION.as_bytes())
                .part(wanted.partition.to_string().as_bytes());
            packer.part(field::PARTITION_COUNT.as_bytes());
            packer.part(wanted.partition_count.to_string().as_bytes());
            packer
                .part(field::PREFETCH.as_bytes())
                .part(wanted.prefetch.to_string().as_bytes());
            packer.end();
            packer.start(b"EXEC").end();
        });
        let replies = limited(ANSWER_WITHIN, writing).await?;
        match replies.last() {
            Some(Reply::Nil) => Ok(false),
            Some(exec @ Reply::Array(_)) if exec.first_error().is_none() => Ok(true),
            _ => Err(refused("EXEC", &replies)),
        }
    }

    /// Lifts a halt and waits until that is safe. Nothing else does.
    ///
    /// # Errors
    /// [`StoreError::NotDurable`] when it is lifted on too few disks; run it again then.
    pub async fn lift_halt(&mut self) -> Result<(), StoreError> {
        let partition = self.keys.partition();
        let delete: [&[u8]; 2] = [b"DEL", self.keys.halted().as_bytes()];
        let lifted = limited(ANSWER_WITHIN, self.link.ask(&delete)).await;
        lifted.map_err(|error| StoreError::Link { partition, error })?;
        self.wait_for_disks().await
    }

    /// Waits until everything that was written here so far is on enough disks. The wait is behind
    /// a write of its own, because a wait on a connection that has not written says yes at once.
    async fn wait_for_disks(&mut self) -> Result<(), StoreError> {
        let Durability::AofReplicated { replicas, timeout } = self.durability else {
            return Ok(());
        };
        let partition = self.keys.partition();
        let give_up = Instant::now() + DISKS_WITHIN;
        loop {
            let needed = Needed { replicas };
            let waiting = checks::durability(&mut self.link, &self.keys, needed, timeout);
            // The two waits behind each other, and the answer.
            let waited = tokio::time::timeout(timeout * 2 + ANSWER_WITHIN, waiting).await;
            match waited.unwrap_or(Err(CheckError::Link(LinkError::TimedOut))) {
                Ok(()) => return Ok(()),
                Err(CheckError::Misconfigured(line)) => {
                    return Err(StoreError::Misconfigured(line));
                }
                Err(CheckError::Unavailable(line)) if Instant::now() >= give_up => {
                    return Err(StoreError::NotDurable(line));
                }
                Err(CheckError::Unavailable(_)) => {}
                Err(CheckError::Link(error)) => return Err(StoreError::Link { partition, error }),
            }
        }
    }
}

async fn limited<T>(
    within: Duration,
    asking: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    tokio::time::timeout(within, asking)
        .await
        .unwrap_or(Err(LinkError::TimedOut))
}

/// The first refusal among the replies of a packet.
fn refused(command: &str, replies: &[Reply]) -> LinkError {
    match replies.iter().find_map(Reply::first_error) {
        Some(words) => LinkError::Refused {
            command: command.to_owned(),
            words: words.to_owned(),
        },
        None => unexpected(command),
    }
}
