//! The seeded workload: commands as a busy market sends them, the same for the same seed.
//!
//! Of a hundred commands sixty place an order, thirty cancel one, five amend one, and five replace
//! up to ten at once. Half of the places trade. To know which orders are live and what would
//! trade, the workload decides its own commands with the engine as it goes (`market`); so every
//! cancel and amend names an order that rests when the command's turn comes, as long as the
//! commands of a pair are decided in the order in which they were made. Prices follow a mid that
//! moves; a side that runs thin is filled up by the batches.
//!
//! Orders of the house (without a user) only ever rest, and only ask, so that two of them never
//! meet. Time is the caller's: a start and a step. Nothing here reads a clock, and randomness
//! comes from the seed alone.

mod draw;
mod market;

use conductor_engine::limits::TIMESTAMP_END;
use conductor_engine::{Body, Command, CommandId, PairDecimals, PairId, Timestamp, UserId};
use fastrand::Rng;
use market::Market;

/// What a workload is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadOptions {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// The pairs, each as likely as any other.
    pub pairs: Vec<PairId>,
    /// How many partitions the cell has, if commands are to say which one they are for.
    pub partition_count: Option<u32>,
    /// How many users there are: `u-1` and on.
    pub users: u32,
    /// How many of a thousand asks that come to rest belong to the house.
    pub house_permille: u16,
    /// The decimals of every pair.
    pub decimals: PairDecimals,
    /// Where the mid of every pair begins, in ticks; 100 or more.
    pub mid_ticks: u64,
    /// How many orders a pair should hold. Fewer bring more quotes, more bring more cancels.
    pub resting_per_pair: usize,
    /// Of a hundred commands, how many are of each kind.
    pub mix: Mix,
    /// Entries that a batch has at most.
    pub batch_entries_max: usize,
    /// The first command's time.
    pub start: Timestamp,
    /// How many milliseconds pass from one command to the next.
    pub step_ms: u64,
    /// What every command id and order id begins with, so that two workloads can share a cell.
    pub prefix: String,
}

/// How many of a hundred commands are of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// `order.place`, half of which trade.
    pub places: u8,
    /// `order.cancel`
    pub cancels: u8,
    /// `order.amend`
    pub amends: u8,
    /// `orders.replace-batch`
    pub batches: u8,
}

impl Default for Mix {
    fn default() -> Self {
        Self {
            places: 60,
            cancels: 30,
            amends: 5,
            batches: 5,
        }
    }
}

impl Default for WorkloadOptions {
    fn default() -> Self {
        const START: Timestamp = Timestamp::new(1_767_225_600_000).expect("the start of 2026");
        Self {
            seed: 1,
            pairs: (0..8).map(PairId).collect(),
            partition_count: None,
            users: 100,
            house_permille: 200,
            decimals: PairDecimals {
                price: 2,
                amount: 8,
                quote: 2,
            },
            mid_ticks: 10_000,
            resting_per_pair: 60,
            mix: Mix::default(),
            batch_entries_max: 10,
            start: START,
            step_ms: 1,
            prefix: String::new(),
        }
    }
}

/// Options that no workload can be made of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// There is nothing to trade.
    #[error("a workload needs at least one pair; name one")]
    NoPair,
    /// There is nobody to trade.
    #[error("a workload needs at least one user")]
    NoUser,
    /// The kinds do not add up.
    #[error("the mix adds up to {sum}, not to 100; change one of its shares")]
    Mix {
        /// What it adds up to.
        sum: u16,
    },
    /// The decimals are out of range.
    #[error("a price has at most 12 decimals, an amount and a quote amount at most 18")]
    Decimals,
    /// The mid is too low to be moved around, or too high to be a price.
    #[error("the mid must be from 100 to 100000000000000 ticks")]
    Mid,
    /// A batch without entries, or with more than a batch may have.
    #[error("a batch must have room for 1 to 500 entries")]
    Batch,
    /// A cell without partitions.
    #[error("a cell has at least one partition")]
    NoPartition,
    /// The prefix cannot begin an id.
    #[error("the prefix must have at most 64 characters, all of A-Z a-z 0-9 . _ : -")]
    Prefix,
}

const MID_TICKS: std::ops::RangeInclusive<u64> = 100..=100_000_000_000_000;
const PREFIX_BYTES_MAX: usize = 64;
/// Of a hundred places, how many are made to trade.
const TRADING_PERCENT: u8 = 50;

impl WorkloadOptions {
    fn check(&self) -> Result<(), WorkloadError> {
        let Mix {
            places,
            cancels,
            amends,
            batches,
        } = self.mix;
        let sum = [places, cancels, amends, batches]
            .into_iter()
            .map(u16::from)
            .sum();
        let entries = 1..=conductor_engine::limits::BATCH_ENTRIES_MAX;
        let prefix_fits = self.prefix.is_empty()
            || (self.prefix.len() <= PREFIX_BYTES_MAX && CommandId::new(&self.prefix).is_ok());
        for (holds, error) in [
            (!self.pairs.is_empty(), WorkloadError::NoPair),
            (self.users > 0, WorkloadError::NoUser),
            (sum == 100, WorkloadError::Mix { sum }),
            (self.decimals.in_range(), WorkloadError::Decimals),
            (MID_TICKS.contains(&self.mid_ticks), WorkloadError::Mid),
            (
                entries.contains(&self.batch_entries_max),
                WorkloadError::Batch,
            ),
            (self.partition_count != Some(0), WorkloadError::NoPartition),
            (prefix_fits, WorkloadError::Prefix),
        ] {
            if !holds {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// An endless stream of commands; take as many as are wanted.
#[derive(Debug)]
pub struct Workload {
    options: WorkloadOptions,
    random: Rng,
    market: Market,
    commands: u64,
    orders: u64,
}

impl Workload {
    /// The workload of these options.
    ///
    /// # Errors
    /// [`WorkloadError`] says which option to change.
    pub fn new(options: WorkloadOptions) -> Result<Self, WorkloadError> {
        options.check()?;
        Ok(Self {
            random: Rng::with_seed(options.seed),
            market: Market::new(&options.pairs, options.mid_ticks),
            options,
            commands: 0,
            orders: 0,
        })
    }

    /// How many orders rest once everything that was made so far is decided.
    pub fn resting(&self) -> usize {
        self.market.resting()
    }

    fn make(&mut self) -> Command {
        let timestamp = self.timestamp();
        let place = self.random.usize(..self.options.pairs.len());
        let (place, body) = self.body(place, timestamp);
        self.market.drift(place, &mut self.random);
        let pair = self.options.pairs[place];
        self.commands += 1;
        let id = format!("{}c-{}", self.options.prefix, self.commands);
        Command {
            id: CommandId::new(&id).expect("the prefix was checked"),
            pair,
            partition: None,
            timestamp,
            body,
        }
    }

    /// What the next command asks for, and the place of its pair: this one, unless the command
    /// needs a live order and only another pair has one.
    fn body(&mut self, place: usize, timestamp: Timestamp) -> (usize, Body) {
        let Mix {
            places,
            cancels,
            amends,
            ..
        } = self.options.mix;
        let kind = self.random.u8(..100);
        if kind < places {
            return (place, self.place(place, timestamp));
        }
        let Some(live) = self.market.pair_with_orders(place) else {
            return (place, self.place(place, timestamp));
        };
        if kind < places + cancels {
            let order = self.market.pick(live, &mut self.random);
            (live, Body::Cancel { order })
        } else if kind < places + cancels + amends {
            (live, self.amend(live))
        } else {
            (place, self.batch(place, timestamp))
        }
    }

    fn place(&mut self, place: usize, timestamp: Timestamp) -> Body {
        let trades = self.random.u8(..100) < TRADING_PERCENT;
        let order = trades
            .then(|| self.trading_order(place, timestamp))
            .flatten();
        Body::Place(order.unwrap_or_else(|| {
            let mut quotes = self.market.quotes(place);
            self.resting_order(timestamp, &mut quotes)
        }))
    }

    fn timestamp(&self) -> Timestamp {
        let passed = self.options.step_ms.saturating_mul(self.commands);
        let now = self.options.start.milliseconds().saturating_add(passed);
        Timestamp::new(now.min(TIMESTAMP_END - 1)).expect("before the end of time")
    }

    fn user(&mut self) -> UserId {
        let number = self.random.u32(1..=self.options.users);
        UserId::new(&format!("u-{number}")).expect("letters and digits")
    }
}

impl Iterator for Workload {
    type Item = Command;

    fn next(&mut self) -> Option<Command> {
        let mut command = self.make();
        // The market has one partition; which one the cell has for the pair is none of its business.
        self.market.decide(&command);
        let declared = |count| command.pair.partition(count);
        command.partition = self.options.partition_count.map(declared);
        Some(command)
    }
}
