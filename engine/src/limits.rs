//! Every limit of the cell, in one place, each with its reason.
//!
//! A limit that is crossed gives a typed refusal that names it. The assertions at the end relate
//! the limits to each other, so that changing one alone does not compile.

/// Longest identifier, in bytes. Room for two UUIDs and a prefix; keeps keys short.
pub const ID_BYTES_MAX: usize = 128;
/// A price is below this many ticks, so that a double orders every price correctly.
pub const PRICE_TICKS_END: u64 = 1_000_000_000_000_000;
/// A volume is below this many lots, so that volume times price fits 128 bits with room.
pub const VOLUME_LOTS_END: u64 = 1_000_000_000_000_000_000;
/// Most decimals a price may have: 15 significant digits leave three before the point.
pub const PRICE_DECIMALS_MAX: u8 = 12;
/// Most decimals a volume or a quote amount may have.
pub const AMOUNT_DECIMALS_MAX: u8 = 18;
/// Timestamps are below the year 2100, so that a priority has sixteen digits.
pub const TIMESTAMP_END: u64 = 4_102_444_800_000;
/// Entries of a batch, cancels and places together. Bounds one command's share of a group.
pub const BATCH_ENTRIES_MAX: usize = 500;
/// Largest message that is read at all, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Longest sentence in a rejection's detail, in bytes.
pub const DETAIL_BYTES_MAX: usize = 256;
/// A priority counts a thousand steps per millisecond, so that ties within one are ordered.
pub const PRIORITY_PER_MILLISECOND: u64 = 1_000;
/// Digits of a priority in a sorted-set member.
pub const PRIORITY_DIGITS: usize = 16;
/// Bids carry this minus their priority, so that a descending read finds the oldest first.
pub const PRIORITY_INVERSION: u64 = 9_007_199_254_740_991;
/// The broker's delivery limit: far above any crash loop, and positive, because a negative one
/// loses messages on some versions.
pub const DELIVERY_LIMIT: u32 = 1_000_000;
/// Deliveries the broker may hand out ahead of their acknowledgement, unless configured.
pub const PREFETCH_DEFAULT: u16 = 512;
/// Largest prefetch; a mailbox holds twice that.
pub const PREFETCH_MAX: u16 = 4_096;
/// Commands that share one transaction, unless configured.
pub const GROUP_COMMANDS_DEFAULT: usize = 256;
/// Largest group that may be configured.
pub const GROUP_COMMANDS_MAX: usize = 4_096;
/// Writes after which no further command joins a group, unless configured. One command may go
/// over it: a command is never split over two transactions.
pub const GROUP_WRITES_DEFAULT: usize = 16_384;
/// Replies that wait for the broker before further ones are dropped and counted.
pub const REPLIES_QUEUED_MAX: usize = 8_192;
/// Members that one reconcile reads per side, as the page promises.
pub const RECONCILE_MEMBERS_MAX: usize = 10_000;
/// Differences that one reconcile verifies and reports.
pub const RECONCILE_ISSUES_MAX: usize = 1_000;
/// Levels per side that one depth page shows at most.
pub const DEPTH_LEVELS_MAX: usize = 1_000;
/// Events that wait in the stream before the conductor stops consuming, unless configured.
pub const EVENT_STREAM_ENTRIES_DEFAULT: u64 = 1_000_000;
/// Events that an outbox reads at once, unless configured.
pub const OUTBOX_BATCH_DEFAULT: usize = 1_024;
/// Confirms that an outbox leaves open, unless configured.
pub const OUTBOX_WINDOW_DEFAULT: usize = 1_024;
/// How long an outbox owns its lease without renewing it, in milliseconds.
pub const OUTBOX_LEASE_MS_DEFAULT: u64 = 10_000;
/// Longest pause between two tries of an outbox, in milliseconds.
pub const OUTBOX_BACKOFF_MS_MAX: u64 = 30_000;
/// First pause after a failed try of an outbox, in milliseconds.
pub const OUTBOX_BACKOFF_MS_MIN: u64 = 100;
/// First pause before a conductor connects again after a doubt, in milliseconds.
pub const RECONNECT_BACKOFF_MS_MIN: u64 = 50;
/// Longest pause before a conductor connects again, in milliseconds.
pub const RECONNECT_BACKOFF_MS_MAX: u64 = 2_000;
/// Between two looks at a partition that is halted or refused, in milliseconds.
pub const HALT_POLL_MS: u64 = 1_000;
/// Looks at the idle connection, one a second, before a standby reads the book again.
pub const PREPARE_AGAIN_LOOKS: u32 = 60;
/// Members that one page of a load reads, with their records.
pub const LOAD_PAGE_MEMBERS: usize = 1_000;

const _: () = assert!(TIMESTAMP_END * PRIORITY_PER_MILLISECOND < PRIORITY_INVERSION);
const _: () = assert!(PRIORITY_INVERSION < 10_u64.pow(16) && PRIORITY_DIGITS == 16);
const _: () = assert!(PRICE_TICKS_END < 1 << 53);
const _: () = assert!(VOLUME_LOTS_END < 1 << 63);
const _: () = assert!((PRICE_TICKS_END as u128) * (VOLUME_LOTS_END as u128) < u128::MAX / 100_000);
const _: () = assert!(PREFETCH_DEFAULT <= PREFETCH_MAX);
const _: () = assert!(GROUP_COMMANDS_DEFAULT <= GROUP_COMMANDS_MAX);
const _: () = assert!(BATCH_ENTRIES_MAX * 8 <= GROUP_WRITES_DEFAULT);
const _: () = assert!(RECONNECT_BACKOFF_MS_MIN < RECONNECT_BACKOFF_MS_MAX);
const _: () = assert!(OUTBOX_BACKOFF_MS_MIN < OUTBOX_BACKOFF_MS_MAX);
