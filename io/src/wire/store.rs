//! What a group's writes are to the store: commands for the inside of one transaction.
//!
//! One function maps each kind of write, in the order given; `MULTI`, `EXEC` and the waits belong
//! to the caller. Keys and numbers go straight into the packer's buffers, which are kept from one
//! command to the next. Nothing here may use a command whose effect depends on what the store
//! holds: a transaction is decided before it is sent.

use super::event::encode_event;
use super::json::decimal_text;
use super::result::encode_result;
use crate::keys::{Keys, field};
use crate::resp::Packer;
use conductor_engine::book::RestingOrder;
use conductor_engine::event::{CommandResult, Event};
use conductor_engine::staging::{Cursor, Write};
use conductor_engine::units::QuoteAmount;
use conductor_engine::{Decimal, OrderId, PairDecimals, PairId, Quantity, Side};
use std::fmt::Display;
use std::io::Write as _;

/// Appends the commands of these writes and returns how many they are, which is how many elements
/// the transaction's reply must have. Results expire after `retention_seconds`, or never.
pub fn store_writes(
    keys: &Keys,
    writes: &[Write],
    retention_seconds: Option<u64>,
    out: &mut Vec<u8>,
) -> usize {
    let mut transaction = Transaction {
        keys,
        packer: Packer::new(out),
    };
    for write in writes {
        transaction.write(write, retention_seconds);
    }
    transaction.packer.packed()
}

struct Transaction<'a> {
    keys: &'a Keys,
    packer: Packer<'a>,
}

impl Transaction<'_> {
    fn write(&mut self, write: &Write, retention_seconds: Option<u64>) {
        match write {
            Write::Pair { pair, decimals } => self.pair(*pair, *decimals),
            Write::Accepted { order, command } => {
                let keys = self.keys;
                self.packer
                    .start(b"SET")
                    .build(|key| keys.write_accepted_order(order, key))
                    .part(command.as_str().as_bytes())
                    .end();
            }
            Write::Rest { order, decimals } => {
                self.record(order, *decimals);
                self.add_member(order, *decimals);
            }
            Write::Reduce {
                order,
                remaining,
                quote_volume,
                decimals,
            } => self.reduce(order, *remaining, *quote_volume, *decimals),
            Write::Shrink {
                order,
                remaining,
                decimals,
            } => self.shrink(order, *remaining, *decimals),
            Write::Remove {
                order,
                pair,
                side,
                priority,
            } => self.remove(order, *pair, *side, *priority),
            Write::Event(event) => self.event(event),
            Write::Result(result) => self.result(result, retention_seconds),
            Write::Rewrite {
                member,
                order,
                decimals,
            } => {
                self.remove_members(order.pair, order.side, &[member.as_bytes()]);
                self.add_member(order, *decimals);
                self.record(order, *decimals);
            }
            Write::Cursor(cursor) => self.cursor(cursor),
        }
    }

    fn pair(&mut self, pair: PairId, decimals: PairDecimals) {
        self.packer
            .start(b"SADD")
            .part(self.keys.pairs().as_bytes())
            .build(|part| number(pair, part))
            .end();
        self.packer
            .start(b"HSET")
            .part(self.keys.pair(pair).as_bytes());
        self.decimals(decimals);
        self.packer.end();
    }

    /// The whole record. An order of the house has no `userId` field.
    fn record(&mut self, order: &RestingOrder, decimals: PairDecimals) {
        self.start_record(&order.id);
        self.field(field::ID, order.id.as_str());
        self.field_of(field::PAIR_ID, order.pair);
        self.field(field::SIDE, order.side.name());
        self.field(field::TYPE, "limit");
        self.amount(field::PRICE, &Decimal::of_price(order.price, decimals));
        self.quantity(field::REMAINING, order.remaining, decimals);
        self.quantity(field::VOLUME, order.volume, decimals);
        self.quote(order.quote_volume, decimals);
        self.decimals(decimals);
        self.field_of(field::TIMESTAMP, order.timestamp);
        self.field_of(field::PRIORITY, order.priority);
        if let Some(user) = &order.user {
            self.field(field::USER_ID, user.as_str());
        }
        self.field(field::ROLE, "maker");
        self.field(field::TIME_IN_FORCE, "gtc");
        self.packer.end();
    }

    fn reduce(
        &mut self,
        order: &OrderId,
        remaining: Quantity,
        quote_volume: QuoteAmount,
        decimals: PairDecimals,
    ) {
        self.start_record(order);
        self.quantity(field::REMAINING, remaining, decimals);
        self.quote(quote_volume, decimals);
        self.packer.end();
    }

    fn shrink(&mut self, order: &OrderId, remaining: Quantity, decimals: PairDecimals) {
        self.start_record(order);
        self.quantity(field::REMAINING, remaining, decimals);
        self.quantity(field::VOLUME, remaining, decimals);
        self.packer.end();
    }

    /// Takes the record and the member out, and with it the bare id, which was a member once.
    fn remove(&mut self, order: &OrderId, pair: PairId, side: Side, priority: u64) {
        let member = Keys::member(side, priority, order);
        self.remove_members(pair, side, &[member.as_bytes(), order.as_str().as_bytes()]);
        let keys = self.keys;
        self.packer
            .start(b"DEL")
            .build(|key| keys.write_order(order, key))
            .end();
    }

    fn remove_members(&mut self, pair: PairId, side: Side, members: &[&[u8]]) {
        let keys = self.keys;
        self.packer
            .start(b"ZREM")
            .build(|key| keys.write_book(pair, side, key));
        for member in members {
            self.packer.part(member);
        }
        self.packer.end();
    }

    fn add_member(&mut self, order: &RestingOrder, decimals: PairDecimals) {
        let (keys, price) = (self.keys, Decimal::of_price(order.price, decimals));
        self.packer
            .start(b"ZADD")
            .build(|key| keys.write_book(order.pair, order.side, key))
            .build(|score| decimal_text(score, &price))
            .build(|member| Keys::write_member(order.side, order.priority, &order.id, member))
            .end();
    }

    fn event(&mut self, event: &Event) {
        let keys = self.keys;
        self.packer
            .start(b"XADD")
            .part(keys.events().as_bytes())
            .part(b"*")
            .part(field::EVENT.as_bytes())
            .build(|part| encode_event(event, keys.partition(), part))
            .end();
    }

    fn result(&mut self, result: &CommandResult, retention_seconds: Option<u64>) {
        let keys = self.keys;
        self.packer
            .start(b"SET")
            .build(|key| keys.write_processed_command(&result.command, key))
            .build(|part| encode_result(result, part));
        if let Some(seconds) = retention_seconds {
            self.packer.part(b"EX").build(|part| number(seconds, part));
        }
        self.packer.end();
    }

    fn cursor(&mut self, cursor: &Cursor) {
        self.packer
            .start(b"HSET")
            .part(self.keys.cursor().as_bytes());
        self.field_of(field::SEQUENCE, cursor.sequence);
        self.field_of(field::PRIORITY, cursor.priority);
        if let Some(command) = &cursor.command {
            self.field(field::COMMAND_ID, command.as_str());
        }
        self.packer.end();
    }

    fn start_record(&mut self, order: &OrderId) {
        let keys = self.keys;
        self.packer
            .start(b"HSET")
            .build(|key| keys.write_order(order, key));
    }

    fn decimals(&mut self, decimals: PairDecimals) {
        self.field_of(field::PRICE_DECIMALS, decimals.price);
        self.field_of(field::AMOUNT_DECIMALS, decimals.amount);
        self.field_of(field::QUOTE_DECIMALS, decimals.quote);
    }

    fn quantity(&mut self, name: &str, quantity: Quantity, decimals: PairDecimals) {
        self.amount(name, &Decimal::of_quantity(quantity, decimals));
    }

    fn quote(&mut self, amount: QuoteAmount, decimals: PairDecimals) {
        self.amount(field::QUOTE_VOLUME, &Decimal::of_quote(amount, decimals));
    }

    fn amount(&mut self, name: &str, decimal: &Decimal) {
        self.packer
            .part(name.as_bytes())
            .build(|part| decimal_text(part, decimal));
    }

    fn field(&mut self, name: &str, value: &str) {
        self.packer.part(name.as_bytes()).part(value.as_bytes());
    }

    fn field_of(&mut self, name: &str, value: impl Display) {
        self.packer
            .part(name.as_bytes())
            .build(|part| number(value, part));
    }
}

fn number(value: impl Display, out: &mut Vec<u8>) {
    write!(out, "{value}").expect("a vector takes all bytes");
}
