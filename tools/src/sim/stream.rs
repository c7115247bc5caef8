//! What an outbox asks of the store: the lease, the head of the stream, the end of what it has
//! published.

use super::clock::{MILLISECOND, SECOND};
use super::server::{Ask, Reply};
use super::store::{Effect, Given, Lease};
use super::world::World;
use conductor_engine::Event as MarketEvent;
use conductor_engine::guards::{Guard, GuardSet};
use std::sync::Arc;

impl<G: GuardSet> World<'_, G> {
    pub(super) fn perform_outbox_ask(&mut self, conn: usize, ask: Ask) {
        let node = self.conns[conn].node;
        match ask {
            Ask::Lease(worker) => self.lease(conn, worker),
            Ask::Release(worker) => {
                if self.nodes[node].data.lease_at(self.now()) == Some(worker) {
                    self.write(conn, Effect::Lease(None));
                }
                self.reply(conn, Reply::Released);
            }
            Ask::Delete(entries) => {
                if entries
                    .iter()
                    .any(|entry| self.nodes[node].data.stream.contains_key(entry))
                {
                    self.write(conn, Effect::Delete(entries));
                }
                self.reply(conn, Reply::Deleted);
            }
            Ask::Range { worker, count } => {
                let entries = if self.guards.holds(Guard::OutboxFromHead) {
                    let stream = self.nodes[node].data.stream.iter();
                    stream
                        .take(count)
                        .map(|(at, event)| (*at, Arc::clone(event)))
                        .collect()
                } else {
                    self.range_of_group(conn, worker, count)
                };
                self.reply(conn, Reply::Entries(entries));
            }
            _ => self.begin_sleep(conn),
        }
    }

    pub(super) fn lease(&mut self, conn: usize, worker: u32) {
        let (node, now) = (self.conns[conn].node, self.now());
        let holder = self.nodes[node].data.lease_at(now);
        let held = holder.is_none_or(|holder| holder == worker);
        if held {
            let until = now + 10 * SECOND;
            self.write(conn, Effect::Lease(Some(Lease { worker, until })));
        }
        let stream_length = self.nodes[node].data.stream.len() as u64;
        self.reply(
            conn,
            Reply::Leased {
                held,
                stream_length,
            },
        );
    }

    /// What a consumer group gives: the worker's own first, then what another left for thirty
    /// seconds, then what nobody was given.
    pub(super) fn range_of_group(
        &mut self,
        conn: usize,
        worker: u32,
        count: usize,
    ) -> Vec<(u64, Arc<MarketEvent>)> {
        let (node, now) = (self.conns[conn].node, self.now());
        let data = &self.nodes[node].data;
        let given = |wanted: &dyn Fn(&Given) -> bool| -> Vec<u64> {
            let found = data.given.iter().filter(|(_, given)| wanted(given));
            found.map(|(entry, _)| *entry).take(count).collect()
        };
        let mut entries = given(&|given| given.worker == worker);
        let own = !entries.is_empty();
        if !own {
            entries = given(&|given| now - given.at > 30_000 * MILLISECOND);
        }
        if entries.is_empty() {
            let new = data.stream.range(data.last_given + 1..);
            entries = new.map(|(entry, _)| *entry).take(count).collect();
        }
        let read = entries.iter().filter_map(|entry| {
            data.stream
                .get(entry)
                .map(|event| (*entry, Arc::clone(event)))
        });
        let read = read.collect();
        if !own && !entries.is_empty() {
            self.write(
                conn,
                Effect::Given {
                    worker,
                    at: now,
                    entries,
                },
            );
        }
        read
    }
}
