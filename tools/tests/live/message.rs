//! Messages as producers send them.

use conductor_engine::{Command, Incoming, PairId, PartitionId, Side};
use conductor_io::wire::{decode, encode_command};
use conductor_tools::trace::destination;
use conductor_tools::workload::{Workload, WorkloadOptions};

/// A message, its queue and its command id.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) partition: PartitionId,
    pub(crate) id: String,
    pub(crate) body: Vec<u8>,
}

impl Message {
    pub(crate) fn of(command: &Command, partition_count: u32) -> Self {
        Self {
            partition: command.pair.partition(partition_count),
            id: command.id.to_string(),
            body: encode_command(command),
        }
    }

    /// What a conductor takes it for.
    pub(crate) fn incoming(&self) -> Incoming {
        decode(&self.body)
    }
}

/// A limit order of a pair with no decimals in its prices and volumes.
pub(crate) fn limit(
    pair: u32,
    partition_count: u32,
    name: &str,
    side: Side,
    (price, volume): (u64, u64),
) -> Message {
    let side = side.name();
    let body = format!(
        r#"{{"type":"order.place","commandId":"c-{name}","pairId":{pair},"timestamp":1767225600000,"order":{{"id":"o-{name}","side":"{side}","type":"limit","price":"{price}","volume":"{volume}","userId":"u-{name}","priceDecimals":0,"amountDecimals":0,"quoteDecimals":0,"timestamp":1767225600000}}}}"#
    )
    .into_bytes();
    let incoming = decode(&body);
    assert!(matches!(incoming, Incoming::Command(_)), "{incoming:?}");
    Message {
        partition: destination(&incoming, Some(&body), partition_count),
        id: format!("c-{name}"),
        body,
    }
}

/// So many commands of a seeded market on eight pairs; the prefix begins every id.
pub(crate) fn workload(seed: u64, prefix: &str, commands: usize) -> Vec<Command> {
    let options = WorkloadOptions {
        seed,
        prefix: prefix.to_owned(),
        pairs: (0..8).map(PairId).collect(),
        ..WorkloadOptions::default()
    };
    let made = Workload::new(options).expect("the options are good");
    made.take(commands).collect()
}
