//! What the articles' conductor reads of the store while it decides: candidates in pages, records
//! one by one, and who used an id.

use crate::connection::Connection;
use anyhow::{Context, bail, ensure};
use conductor_engine::book::RestingOrder;
use conductor_engine::{CommandId, Decimal, OrderId, PairDecimals, PairId, Price, Side};
use conductor_io::keys::Keys;
use conductor_io::resp::{Packer, Reply};
use conductor_io::wire::{read_pair, read_record};
use std::collections::VecDeque;

/// Candidates that are read at once: the articles' CANDIDATE_BATCH_SIZE.
const PAGE: usize = 64;

/// The store as the deciding side sees it.
#[derive(Debug)]
pub(crate) struct Reads {
    pub(crate) connection: Connection,
    pub(crate) keys: Keys,
}

impl Reads {
    fn get(&mut self, key: &str) -> anyhow::Result<Option<Vec<u8>>> {
        let reply = self.connection.ask(&["GET", key])?;
        Ok(reply.bytes().map(<[u8]>::to_vec))
    }

    /// The stored result of a command.
    pub(crate) fn processed(&mut self, command: &CommandId) -> anyhow::Result<Option<Vec<u8>>> {
        let key = self.keys.processed_command(command);
        self.get(&key)
    }

    /// Whether an order's id is used up.
    pub(crate) fn is_accepted(&mut self, order: &OrderId) -> anyhow::Result<bool> {
        let key = self.keys.accepted_order(order);
        Ok(self.get(&key)?.is_some())
    }

    /// A pair's decimals, once fixed.
    pub(crate) fn decimals(&mut self, pair: PairId) -> anyhow::Result<Option<PairDecimals>> {
        let reply = self.connection.ask(&["HGETALL", &self.keys.pair(pair)])?;
        Ok(read_pair(&reply)?)
    }

    /// A resting order.
    pub(crate) fn order(&mut self, order: &OrderId) -> anyhow::Result<Option<RestingOrder>> {
        let reply = self.connection.ask(&["HGETALL", &self.keys.order(order)])?;
        resting(&reply)
    }

    /// A page of candidates of a side, best first: members up to a price, then a record for each,
    /// all records in one round trip.
    fn page(
        &mut self,
        pair: PairId,
        side: Side,
        limit: Option<&str>,
        offset: usize,
    ) -> anyhow::Result<Vec<RestingOrder>> {
        let key = self.keys.book(pair, side);
        let (offset, count) = (offset.to_string(), PAGE.to_string());
        let (range, from, to) = match side {
            Side::Ask => ("ZRANGEBYSCORE", "-inf", limit.unwrap_or("+inf")),
            Side::Bid => ("ZREVRANGEBYSCORE", "+inf", limit.unwrap_or("-inf")),
        };
        let words = [
            range,
            &key,
            from,
            to,
            "WITHSCORES",
            "LIMIT",
            &offset,
            &count,
        ];
        let reply = self.connection.ask(&words)?;
        let members = reply.elements().context("a range is a list")?;
        let mut bytes = Vec::new();
        let mut packer = Packer::new(&mut bytes);
        for member in members.iter().step_by(2) {
            let member = member.text().context("a member is text")?;
            let Some(found) = Keys::parse_member(side, member).prefixed else {
                bail!("the member {member} has no priority");
            };
            let key = self.keys.order(&found.order);
            packer.start(b"HGETALL").part(key.as_bytes()).end();
        }
        let count = packer.packed();
        self.connection.send(&bytes)?;
        let mut orders = Vec::with_capacity(count);
        for _ in 0..count {
            // A member without a record is skipped.
            orders.extend(resting(&self.connection.reply()?)?);
        }
        Ok(orders)
    }
}

fn resting(reply: &Reply) -> anyhow::Result<Option<RestingOrder>> {
    ensure!(
        reply.error().is_none(),
        "a record cannot be read: {reply:?}"
    );
    let Some(record) = read_record(reply)? else {
        return Ok(None);
    };
    let priority = record
        .priority
        .context("a record of ours has its priority")?;
    Ok(Some(record.resting(priority)))
}

/// Candidates of one side, page after page.
#[derive(Debug)]
pub(crate) struct Candidates {
    pair: PairId,
    side: Side,
    limit: Option<String>,
    offset: usize,
    ended: bool,
    page: VecDeque<RestingOrder>,
}

impl Candidates {
    pub(crate) fn new(
        pair: PairId,
        side: Side,
        limit: Option<Price>,
        decimals: PairDecimals,
    ) -> Self {
        Self {
            pair,
            side,
            limit: limit.map(|price| Decimal::of_price(price, decimals).to_string()),
            offset: 0,
            ended: false,
            page: VecDeque::new(),
        }
    }

    /// The best one that was not taken yet.
    pub(crate) fn peek(&mut self, reads: &mut Reads) -> anyhow::Result<Option<&RestingOrder>> {
        while self.page.is_empty() && !self.ended {
            let limit = self.limit.as_deref();
            let page = reads.page(self.pair, self.side, limit, self.offset)?;
            self.ended = page.len() < PAGE;
            self.offset += PAGE;
            self.page.extend(page);
        }
        Ok(self.page.front())
    }

    pub(crate) fn take(&mut self) -> Option<RestingOrder> {
        self.page.pop_front()
    }
}
