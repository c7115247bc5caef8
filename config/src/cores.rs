//! Which core does what.
//!
//! A conductor pins its I/O to one core and each partition to one of its own. The cores that exist
//! for the process are handed in, since a container or a mask may leave it fewer than the machine
//! has. Two duties on one core are refused unless sharing is asked for: a partition that waits
//! for its core waits with the whole market.

use crate::error::ConfigError;
use crate::keys::{self, Key};

/// The cores that this process may use, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreInventory(pub Vec<usize>);

/// What the settings say about cores, before it is known which there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CoreRequest {
    pub(crate) share: bool,
    pub(crate) io: Option<u64>,
    pub(crate) partitions: Option<Vec<u64>>,
}

/// The core of each duty.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoreMap {
    /// The I/O core.
    pub io: usize,
    /// One core for each partition, in the order of the partitions in the settings.
    pub partitions: Vec<usize>,
}

impl CoreInventory {
    fn find(&self, key: Key, core: u64) -> Result<usize, ConfigError> {
        let same = |known: &&usize| u64::try_from(**known) == Ok(core);
        self.0
            .iter()
            .find(same)
            .copied()
            .ok_or_else(|| ConfigError::CoreAbsent {
                key,
                core,
                available: self.listed(),
            })
    }

    fn listed(&self) -> String {
        let names: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        names.join(", ")
    }
}

impl CoreRequest {
    /// Gives every duty a core. Without a wish the I/O takes the first and the partitions take
    /// the following ones; where sharing is allowed and they run out, they start over.
    pub(crate) fn resolve(
        &self,
        partitions: usize,
        inventory: &CoreInventory,
    ) -> Result<CoreMap, ConfigError> {
        let available = inventory.0.len();
        if available == 0 || (available <= partitions && !self.share) {
            return Err(ConfigError::TooFewCores {
                partitions,
                available,
            });
        }
        let wished = self.wished_partitions(partitions, inventory)?;
        let io = match self.io {
            Some(core) => inventory.find(keys::IO_CORE, core)?,
            None => first_other_than(&inventory.0, wished.as_deref().unwrap_or_default()),
        };
        let cores = wished.unwrap_or_else(|| spread(&inventory.0, io, partitions));
        if !self.share {
            refuse_twice(io, &cores)?;
        }
        Ok(CoreMap {
            io,
            partitions: cores,
        })
    }

    fn wished_partitions(
        &self,
        partitions: usize,
        inventory: &CoreInventory,
    ) -> Result<Option<Vec<usize>>, ConfigError> {
        let Some(wished) = &self.partitions else {
            return Ok(None);
        };
        if wished.len() != partitions {
            return Err(ConfigError::CoreListLength {
                cores: wished.len(),
                partitions,
            });
        }
        let find = |core: &u64| inventory.find(keys::PARTITION_CORES, *core);
        wished.iter().map(find).collect::<Result<_, _>>().map(Some)
    }
}

/// The first core that is not taken, or the first of all where every one is.
fn first_other_than(available: &[usize], taken: &[usize]) -> usize {
    *available
        .iter()
        .find(|core| !taken.contains(core))
        .unwrap_or(&available[0])
}

/// One core a partition, round and round over those that are not the I/O core.
fn spread(available: &[usize], io: usize, partitions: usize) -> Vec<usize> {
    let others: Vec<usize> = available
        .iter()
        .copied()
        .filter(|core| *core != io)
        .collect();
    let cores = if others.is_empty() {
        available
    } else {
        others.as_slice()
    };
    cores.iter().copied().cycle().take(partitions).collect()
}

fn refuse_twice(io: usize, partitions: &[usize]) -> Result<(), ConfigError> {
    let mut seen = vec![io];
    for core in partitions {
        if seen.contains(core) {
            return Err(ConfigError::CoreTwice { core: *core });
        }
        seen.push(*core);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(request: &CoreRequest, partitions: usize, cores: &[usize]) -> (usize, Vec<usize>) {
        let inventory = CoreInventory(cores.to_vec());
        let map = request
            .resolve(partitions, &inventory)
            .expect("the cores suffice");
        (map.io, map.partitions)
    }

    #[test]
    fn io_takes_the_first_core_and_partitions_the_following_ones() {
        let request = CoreRequest::default();
        assert_eq!(map(&request, 1, &[0, 1]), (0, vec![1]));
        assert_eq!(map(&request, 2, &[4, 6, 7, 9]), (4, vec![6, 7]));
    }

    #[test]
    fn sharing_goes_round_and_a_single_core_does_everything() {
        let request = CoreRequest {
            share: true,
            ..CoreRequest::default()
        };
        assert_eq!(map(&request, 3, &[0, 1, 2]), (0, vec![1, 2, 1]));
        assert_eq!(map(&request, 2, &[3]), (3, vec![3, 3]));
    }

    #[test]
    fn the_half_that_is_not_wished_avoids_the_half_that_is() {
        let io = CoreRequest {
            io: Some(1),
            ..CoreRequest::default()
        };
        assert_eq!(map(&io, 2, &[0, 1, 2]), (1, vec![0, 2]));
        let partitions = CoreRequest {
            partitions: Some(vec![0, 2]),
            ..CoreRequest::default()
        };
        assert_eq!(map(&partitions, 2, &[0, 1, 2]), (1, vec![0, 2]));
    }
}
