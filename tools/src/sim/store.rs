//! What one node of the store holds, and the entries that change it.
//!
//! A write is applied in the words of the domain. An entry stands in the log of every node that has
//! it, at the same place, and remembers on whose disks it is.

use super::clock::Time;
use conductor_engine::book::RestingOrder;
use conductor_engine::event::CommandResult;
use conductor_engine::partition::{HaltRecord, LoadedMember, LoadedPage, Record, StoredOrder};
use conductor_engine::staging::{Cursor, Write};
use conductor_engine::{CommandId, Event, OrderId, PairDecimals, PairId, Side};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Which outbox holds the lease, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) worker: u32,
    pub(super) until: Time,
}

/// One change to the store.
#[derive(Debug)]
pub(super) enum Effect {
    /// A group's writes.
    Group(Vec<Write>),
    /// The epoch is raised by one.
    Epoch,
    /// The partition is halted.
    Halt(HaltRecord),
    /// The lease is taken, renewed or given up.
    Lease(Option<Lease>),
    /// Events that were published leave the stream.
    Delete(Vec<u64>),
    /// A key that means nothing, to try the disks out.
    Touch,
    /// A consumer group hands entries to a worker; only where the outbox does not read from the
    /// head.
    Given {
        worker: u32,
        at: Time,
        entries: Vec<u64>,
    },
}

/// One change in a log.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) effect: Effect,
    /// The number that its first event has in the stream.
    pub(super) stream: u64,
    /// One bit for each node whose disk has it.
    pub(super) disks: Cell<u8>,
}

/// An order's record.
#[derive(Clone, Debug)]
struct Resting {
    order: RestingOrder,
    decimals: PairDecimals,
}

/// What a consumer group knows of an entry that it has handed out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    pub(super) worker: u32,
    pub(super) at: Time,
}

/// Everything that one node holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Data {
    records: BTreeMap<OrderId, Resting>,
    pub(super) pairs: BTreeMap<PairId, PairDecimals>,
    pub(super) results: BTreeMap<CommandId, Arc<CommandResult>>,
    pub(super) accepted: BTreeMap<OrderId, CommandId>,
    pub(super) stream: BTreeMap<u64, Arc<Event>>,
    pub(super) last_stream: u64,
    pub(super) given: BTreeMap<u64, Given>,
    pub(super) last_given: u64,
    pub(super) epoch: u64,
    /// How often the epoch's key was touched; what a watch compares.
    pub(super) epoch_touched: u64,
    pub(super) cursor: Cursor,
    pub(super) halted: Option<HaltRecord>,
    pub(super) lease: Option<Lease>,
}

impl Data {
    /// Applies one entry.
    ///
    /// # Errors
    /// A sentence when the entry changes what is not there, or breaks a count.
    pub(super) fn apply(&mut self, entry: &Entry) -> Result<(), String> {
        match &entry.effect {
            Effect::Group(writes) => {
                let mut stream = entry.stream;
                for write in writes {
                    self.write(write, &mut stream)?;
                }
                self.last_stream = self.last_stream.max(stream);
                self.check_book()?;
            }
            Effect::Epoch => {
                self.epoch += 1;
                self.epoch_touched += 1;
            }
            Effect::Halt(record) => self.halted = Some(record.clone()),
            Effect::Lease(lease) => self.lease = *lease,
            Effect::Delete(entries) => {
                for entry in entries {
                    self.stream.remove(entry);
                    self.given.remove(entry);
                }
            }
            Effect::Touch => {}
            Effect::Given {
                worker,
                at,
                entries,
            } => {
                for entry in entries {
                    let (worker, at) = (*worker, *at);
                    self.given.insert(*entry, Given { worker, at });
                    self.last_given = self.last_given.max(*entry);
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, write: &Write, stream: &mut u64) -> Result<(), String> {
        match write {
            Write::Pair { pair, decimals } => {
                self.pairs.insert(*pair, *decimals);
            }
            Write::Accepted { order, command } => {
                self.accepted.insert(order.clone(), command.clone());
            }
            Write::Rest { order, decimals } => self.rest(order, *decimals)?,
            Write::Reduce {
                order,
                remaining,
                quote_volume,
                ..
            } => {
                let record = self.record(order)?;
                record.remaining = *remaining;
                record.quote_volume = *quote_volume;
            }
            Write::Shrink {
                order, remaining, ..
            } => {
                let record = self.record(order)?;
                record.volume = *remaining;
                record.remaining = *remaining;
            }
            Write::Remove { order, .. } => {
                if self.records.remove(order).is_none() {
                    return Err(format!(
                        "order {order} is taken out of the store's book and is not in it: it was \
                         taken out before"
                    ));
                }
            }
            Write::Event(event) => self.event(event, stream)?,
            Write::Result(result) => {
                self.results
                    .insert(result.command.clone(), Arc::clone(result));
            }
            Write::Rewrite { order, .. } => {
                return Err(format!(
                    "order {} is rewritten in a store of our own",
                    order.id
                ));
            }
            Write::Cursor(cursor) => self.move_cursor(cursor)?,
        }
        Ok(())
    }

    fn rest(&mut self, order: &Arc<RestingOrder>, decimals: PairDecimals) -> Result<(), String> {
        let (last, priority) = (self.cursor.priority, order.priority);
        if priority <= last {
            return Err(format!(
                "order {} is put into the book with the place in time {priority}, but {last} was \
                 given before: it is there already, or goes before orders that came first",
                order.id
            ));
        }
        // Counted on at once, so that two orders of one group are held against each other.
        self.cursor.priority = priority;
        let order = RestingOrder::clone(order);
        let id = order.id.clone();
        let before = self.records.insert(id.clone(), Resting { order, decimals });
        match before {
            Some(_) => Err(format!(
                "order {id} is put into the book and is there already"
            )),
            None => Ok(()),
        }
    }

    fn record(&mut self, order: &OrderId) -> Result<&mut RestingOrder, String> {
        let found = self.records.get_mut(order);
        found.map(|record| &mut record.order).ok_or_else(|| {
            format!(
                "order {order} trades or changes in the store and is not in its book: it left the \
                 book before"
            )
        })
    }

    fn event(&mut self, event: &Arc<Event>, stream: &mut u64) -> Result<(), String> {
        let (expected, found) = (self.cursor.sequence + 1, event.sequence);
        self.stream.insert(*stream, Arc::clone(event));
        *stream += 1;
        // Counted on here already, so that two events of one group are held against each other.
        self.cursor.sequence = found;
        if found != expected {
            return Err(format!(
                "the event {}.{} has the number {found}, but {expected} comes next: consumers would \
                 see a gap, or another event with a number that they know",
                event.command, event.index
            ));
        }
        Ok(())
    }

    fn move_cursor(&mut self, cursor: &Cursor) -> Result<(), String> {
        let before = std::mem::replace(&mut self.cursor, cursor.clone());
        if before.sequence != cursor.sequence || before.priority > cursor.priority {
            return Err(format!(
                "the transaction says that the last event is {} and the last place in time {}, where \
                 the store had {} and {}: it was not made for this state of the store",
                cursor.sequence, cursor.priority, before.sequence, before.priority
            ));
        }
        Ok(())
    }

    /// No order has nothing left or more than it had, and no pair's sides cross.
    fn check_book(&self) -> Result<(), String> {
        let mut best: BTreeMap<PairId, (u64, u64)> = BTreeMap::new();
        for Resting { order, .. } in self.records.values() {
            if order.remaining.is_zero() || order.remaining > order.volume {
                return Err(format!(
                    "order {} rests with an impossible remainder",
                    order.id
                ));
            }
            let (bid, ask) = best.entry(order.pair).or_insert((0, u64::MAX));
            match order.side {
                Side::Bid => *bid = order.price.ticks().max(*bid),
                Side::Ask => *ask = order.price.ticks().min(*ask),
            }
        }
        match best.iter().find(|(_, (bid, ask))| bid >= ask) {
            Some((pair, (bid, ask))) => Err(format!(
                "the book of pair {pair} is crossed: bid {bid}, ask {ask}"
            )),
            None => Ok(()),
        }
    }

    /// One side of a pair in the order in which its index reads: by price, then by time.
    pub(super) fn orders(&self, pair: PairId, side: Side) -> Vec<&RestingOrder> {
        let mut orders: Vec<&RestingOrder> = self
            .records
            .values()
            .map(|record| &record.order)
            .filter(|order| order.pair == pair && order.side == side)
            .collect();
        orders.sort_by_key(|order| {
            let ticks = order.price.ticks();
            let price = if side == Side::Ask {
                ticks
            } else {
                u64::MAX - ticks
            };
            (price, order.priority)
        });
        orders
    }

    /// How many orders rest.
    pub(super) fn resting(&self) -> usize {
        self.records.len()
    }

    /// One page of a load.
    pub(super) fn page(&self, pair: PairId, side: Side) -> LoadedPage {
        let member = |order: &RestingOrder| LoadedMember {
            member: format!("{:016}:{}", order.priority, order.id),
            priority: Some(order.priority),
            record: Record::Order(Box::new(StoredOrder {
                order: order.clone(),
                decimals: self.records[&order.id].decimals,
                priority: Some(order.priority),
            })),
        };
        LoadedPage {
            pair,
            decimals: self.pairs.get(&pair).copied(),
            side,
            members: self.orders(pair, side).into_iter().map(member).collect(),
        }
    }

    /// Who holds the lease now.
    pub(super) fn lease_at(&self, now: Time) -> Option<u32> {
        self.lease
            .filter(|lease| lease.until > now)
            .map(|lease| lease.worker)
    }
}

/// The data that a log gives.
pub(super) fn replay(log: &[Rc<Entry>]) -> Data {
    let mut data = Data::default();
    for entry in log {
        // What is wrong with an entry was told when it was executed.
        let _ = data.apply(entry);
    }
    data
}
