//! Who is primary: Sentinel looks around, promotes, and tells the others whom to follow.
//!
//! A primary that was away takes itself for one until it is told otherwise, and executes what it is
//! sent meanwhile. When it is told, its connections are closed, as a rule.

use super::clock::{MILLISECOND, SECOND};
use super::node::NodeRole;
use super::tally::Count;
use super::world::{Event, World};
use conductor_engine::guards::GuardSet;

impl<G: GuardSet> World<'_, G> {
    /// Sentinel makes a replica the primary.
    pub(super) fn promote(&mut self, place: usize) {
        let before = self.primary;
        self.primary = place;
        self.old_primary = before;
        self.tally.count(Count::Failover);
        self.detach(place);
        self.nodes[place].role = NodeRole::Primary;
        self.nodes[place].promotions += 1;
        let line = format!(
            "makes node {} the primary in place of node {}",
            place + 1,
            before + 1
        );
        self.tell(|_| ("sentinel".into(), line));
        self.close_conns_of_node(place);
        self.check_nothing_missing(place);
        for node in &mut self.nodes {
            node.told = false;
        }
    }

    /// Sentinel looks at everything once a second.
    pub(super) fn sentinel(&mut self) {
        let now = self.now();
        self.clock.at(now + SECOND / 2, Event::Sentinel);
        let primary = self.primary;
        if self.nodes[primary].works() {
            self.primary_seen = now;
        } else if now - self.primary_seen >= 3 * SECOND {
            let nodes = 0..self.nodes.len();
            let fit: Vec<usize> = nodes
                .filter(|place| *place != primary && self.nodes[*place].works())
                .collect();
            if !fit.is_empty() {
                let chosen = fit[self.random.usize(..fit.len())];
                self.primary_seen = now;
                self.promote(chosen);
            }
        }
        for place in 0..self.nodes.len() {
            self.tell_whom_to_follow(place);
        }
    }

    pub(super) fn tell_whom_to_follow(&mut self, place: usize) {
        let (primary, now) = (self.primary, self.now());
        let node = &self.nodes[place];
        let right = NodeRole::Replica { of: primary };
        if place == primary || node.role == right || node.told || !node.works() {
            return;
        }
        // A primary that came back takes itself for one until it is told otherwise.
        let after = if node.is_primary() {
            self.random.u64(..10 * SECOND)
        } else {
            self.random.u64(50..150) * MILLISECOND
        };
        self.nodes[place].told = true;
        let life = self.nodes[place].life;
        self.clock.at(now + after, Event::Follow { place, life });
    }

    /// A node is told whom to follow.
    pub(super) fn follow(&mut self, place: usize, life: u32) {
        let primary = self.primary;
        let node = &mut self.nodes[place];
        if node.life != life || !node.works() || place == primary {
            return;
        }
        node.told = false;
        let was_primary = node.is_primary();
        node.role = NodeRole::Replica { of: primary };
        if was_primary {
            self.tell(|names| {
                (
                    names.node(place),
                    format!("is told to follow {}", names.node(primary)),
                )
            });
            for follower in std::mem::take(&mut self.nodes[place].followers) {
                self.lose_primary(follower.node);
            }
            // Not every way of reconfiguring a server closes its connections.
            if self.random.u8(..100) < 80 {
                self.close_conns_of_node(place);
            } else {
                self.unblock_all(place);
            }
        }
        self.detach(place);
        self.attach(place);
    }
}
