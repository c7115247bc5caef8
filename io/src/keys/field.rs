//! The names of the fields inside the store's hashes and stream entries.

/// Of an order's record: its id.
pub const ID: &str = "id";
/// Of an order's record: its pair.
pub const PAIR_ID: &str = "pairId";
/// Of an order's record: `ask` or `bid`.
pub const SIDE: &str = "side";
/// Of an order's record: always `limit`, since nothing else rests.
pub const TYPE: &str = "type";
/// Of an order's record: its price.
pub const PRICE: &str = "price";
/// Of an order's record: what it has left.
pub const REMAINING: &str = "remaining";
/// Of an order's record: what it was placed with, or last amended to.
pub const VOLUME: &str = "volume";
/// Of an order's record: quote volume that it has traded.
pub const QUOTE_VOLUME: &str = "quoteVolume";
/// Of an order's record and of a pair: decimals of a price.
pub const PRICE_DECIMALS: &str = "priceDecimals";
/// Of an order's record and of a pair: decimals of a volume.
pub const AMOUNT_DECIMALS: &str = "amountDecimals";
/// Of an order's record and of a pair: decimals of a quote amount.
pub const QUOTE_DECIMALS: &str = "quoteDecimals";
/// Of an order's record: the producer's time.
pub const TIMESTAMP: &str = "timestamp";
/// Of an order's record: its place in time. Of the cursor: the last one given.
pub const PRIORITY: &str = "priority";
/// Of an order's record: whose it is; left out where it is the house's.
pub const USER_ID: &str = "userId";
/// Of an order's record: always `maker`.
pub const ROLE: &str = "role";
/// Of an order's record: always `gtc`, since nothing else rests.
pub const TIME_IN_FORCE: &str = "timeInForce";

/// Of the cursor: the last event's sequence.
pub const SEQUENCE: &str = "sequence";
/// Of the cursor: the last command that was committed.
pub const COMMAND_ID: &str = "commandId";

/// Of the topology: which partition the store belongs to.
pub const PARTITION: &str = "partition";
/// Of the topology: how many partitions there are.
pub const PARTITION_COUNT: &str = "partitionCount";
/// Of the topology: the prefetch of every instance.
pub const PREFETCH: &str = "prefetch";

/// Of a halt: why.
pub const REASON: &str = "reason";
/// Of a halt: the command at hand.
pub const COMMAND: &str = "command";
/// Of a halt: the owner's number.
pub const EPOCH: &str = "epoch";

/// Of an entry of the event stream: the event in its canonical form.
pub const EVENT: &str = "event";
