//! The pages' own connections to the stores.
//!
//! A scrape comes every few seconds, so its connection is kept between two of them; a reconcile is
//! rare and opens one of its own. Neither is ever a connection of the command path.

use super::{PartitionHandle, Site};
use crate::store::Link;
use crate::store::discover::{DiscoverError, Logins};
use crate::store::over_tokio::{self, Socket};
use std::time::Duration;
use tokio::sync::Mutex;

/// How long one step of finding a store may take.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a scrape waits for a store, finding it included.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(1);

/// One kept connection per partition, in the order of the partitions.
pub(super) struct Stores(Vec<Mutex<Option<Link<Socket>>>>);

/// What a store says of its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreMemory {
    pub(super) used_bytes: u64,
    /// Zero where the store has no bound.
    pub(super) max_bytes: u64,
}

impl Stores {
    pub(super) fn new(partitions: usize) -> Self {
        Self((0..partitions).map(|_| Mutex::new(None)).collect())
    }
}

/// A fresh connection to a partition's primary.
pub(super) async fn connect(
    site: &Site,
    handle: &PartitionHandle,
) -> Result<Link<Socket>, DiscoverError> {
    let logins = Logins {
        store: site.admin.store_login.as_ref(),
        sentinel: site.admin.sentinel_login.as_ref(),
    };
    let primary = over_tokio::primary(&handle.store, logins, CONNECT_TIMEOUT).await?;
    Ok(primary.link)
}

/// What the primary of the partition in this place says of its memory; `None` where it cannot be
/// asked in time.
pub(super) async fn memory(site: &Site, place: usize) -> Option<StoreMemory> {
    let asking = async {
        // A link whose wait was cut short stays out of its place and is dropped.
        let mut kept = site.stores.0[place].lock().await;
        let link = kept.take();
        let (link, memory) = match ask_memory(link).await {
            Some(answered) => answered,
            None => {
                let fresh = connect(site, &site.admin.partitions[place]).await.ok();
                ask_memory(fresh).await?
            }
        };
        *kept = Some(link);
        Some(memory)
    };
    tokio::time::timeout(SCRAPE_TIMEOUT, asking)
        .await
        .ok()
        .flatten()
}

/// Gives the link back when it works and still leads to a primary.
async fn ask_memory(link: Option<Link<Socket>>) -> Option<(Link<Socket>, StoreMemory)> {
    let mut link = link?;
    let replies = link.ask_all(|packer| {
        packer.start(b"INFO").part(b"memory").end();
        packer.start(b"ROLE").end();
    });
    let replies = replies.await.ok()?;
    let role = replies[1].elements()?.first()?.text()?;
    if role != "master" {
        return None;
    }
    let memory = read_memory(replies[0].text()?)?;
    Some((link, memory))
}

fn read_memory(info: &str) -> Option<StoreMemory> {
    let number = |name: &str| {
        let mut fields = info.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = fields.find(|(field, _)| *field == name)?;
        value.trim().parse().ok()
    };
    Some(StoreMemory {
        used_bytes: number("used_memory")?,
        max_bytes: number("maxmemory").unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_section_is_read_by_its_field_names() {
        let info = "# Memory\r\nused_memory:1048576\r\nused_memory_human:1.00M\r\nmaxmemory:0\r\n";
        let memory = StoreMemory {
            used_bytes: 1_048_576,
            max_bytes: 0,
        };
        assert_eq!(read_memory(info), Some(memory));
        assert_eq!(read_memory("# Memory\r\n"), None);
    }
}
