//! What each fault does to the world, and whom it hits.

use super::clock::{MILLISECOND, SECOND};
use super::fault::{Fault, When, Whom};
use super::tally::Count;
use super::world::{ACTORS, Actor, Event, World};
use conductor_engine::guards::GuardSet;

impl<G: GuardSet> World<'_, G> {
    pub(super) fn plan_faults(&mut self) {
        let mut by_step = Vec::new();
        for (place, fault) in self.plan.faults.iter().enumerate() {
            match fault.when {
                When::Step(_) => by_step.push(place),
                When::Time(time) => self.clock.at(time, Event::Fault(place)),
            }
        }
        by_step.sort_by_key(|place| std::cmp::Reverse(self.plan.faults[*place].step()));
        self.by_step = by_step;
    }

    /// A fault comes. One that finds nothing to hit is not counted.
    pub(super) fn strike(&mut self, place: usize) {
        if self.closing {
            return;
        }
        let fault = self.plan.faults[place];
        if self.strike_one(&fault) {
            self.tally.count(fault.kind);
            self.last_heal = self.last_heal.max(self.now() + fault.length);
        }
    }

    fn strike_one(&mut self, fault: &Fault) -> bool {
        match fault.kind {
            Count::ConductorCrash | Count::OutboxCrash => self.kill_process(fault),
            Count::ConductorPause | Count::OutboxPause => self.pause_process(fault),
            Count::ConductorStop | Count::OutboxStop => self.stop_process(fault),
            Count::PrimaryCrash | Count::ReplicaCrash => self.kill_node(fault),
            Count::PrimaryPause | Count::ReplicaPause => self.pause_node(fault),
            Count::ReplicationCut | Count::SlowDisk => self.slow_replication(fault),
            Count::PlannedFailover => self.fail_over(),
            Count::StaleSentinel => {
                self.stale_until = self.now() + fault.length;
                let line = "may name the old primary to whoever asks, for a while";
                self.tell_fault(|_| ("sentinel".into(), line.into()));
                true
            }
            Count::StoreFull => {
                let until = self.now() + fault.length;
                self.nodes[self.primary].full_until = until;
                self.tell_fault(|_| ("store".into(), "has no memory left for writes".into()));
                true
            }
            Count::StoreCut | Count::ReplyCut | Count::LatePacket => self.cut_store(fault),
            Count::BrokerCut | Count::ChannelKilled => self.cut_broker(fault),
            Count::BrokerRestart => {
                self.tell_fault(|_| ("broker".into(), "is restarted".into()));
                self.restart_broker(fault.length.min(3 * SECOND));
                true
            }
            Count::Refusals => {
                let more = [1, 2, 5][fault.choice % 3];
                self.broker.refusals += more;
                let line = format!("will refuse the next {more} events");
                self.tell_fault(|_| ("broker".into(), line));
                true
            }
            Count::LostConfirm => self.publish_again(),
            Count::InboxCrash => {
                let line = "dies, and is given again what it has not acknowledged";
                self.tell_fault(|_| ("consumer".into(), line.into()));
                self.judge.redeliver_to_inbox();
                true
            }
            Count::Inspection => {
                let place = usize::from(fault.whom == Whom::Other);
                let runs = self.life_of(Actor::Conductor(place)).running;
                if runs {
                    self.ask_for_comparison(place);
                }
                runs
            }
            Count::DiskSetBack => self.set_disks_back(fault),
            Count::LaggardPromoted => self.promote_laggard(),
            _ => false,
        }
    }

    fn target(&self, fault: &Fault) -> Actor {
        let of_outbox = matches!(
            fault.kind,
            Count::OutboxCrash | Count::OutboxPause | Count::OutboxStop
        );
        let active = if of_outbox {
            usize::from(!self.drain_holds_lease(0))
        } else {
            match self.broker.holder() {
                Some(Actor::Conductor(place)) => place,
                _ => 0,
            }
        };
        let place = if fault.whom == Whom::Active {
            active
        } else {
            1 - active
        };
        if of_outbox {
            Actor::Outbox(place)
        } else {
            Actor::Conductor(place)
        }
    }

    /// A fault of any process hits mostly the active conductor.
    fn any_target(&self, fault: &Fault) -> Actor {
        match fault.choice % 5 {
            0 => ACTORS[2 + usize::from(fault.whom == Whom::Other)],
            _ => self.target(fault),
        }
    }

    fn kill_process(&mut self, fault: &Fault) -> bool {
        let actor = self.target(fault);
        if !self.life_of(actor).running {
            return false;
        }
        self.tell_fault(|names| (names.actor(actor), "is killed".into()));
        self.kill(actor);
        let number = self.life_of(actor).number;
        let again = self.now() + fault.length;
        self.clock.at(again, Event::Restart(actor, number));
        true
    }

    fn pause_process(&mut self, fault: &Fault) -> bool {
        let actor = self.target(fault);
        let life = self.life_of(actor);
        if !life.running || life.paused {
            return false;
        }
        let milliseconds = fault.length / MILLISECOND;
        self.tell_fault(|names| {
            (
                names.actor(actor),
                format!("is paused for {milliseconds} ms"),
            )
        });
        self.pause(actor, fault.length);
        // A broker that hears nothing of a process gives its connection up.
        if !fault.choice.is_multiple_of(3) {
            let link = match actor {
                Actor::Conductor(place) => self.link_of_conductor(place),
                Actor::Outbox(place) => self.link_of_drain(place),
            };
            if let Some(link) = link {
                self.drop_link(link, 0);
            }
        }
        true
    }

    fn stop_process(&mut self, fault: &Fault) -> bool {
        let actor = self.target(fault);
        let life = self.life_of(actor);
        if !life.running || life.paused {
            return false;
        }
        self.tell_fault(|names| (names.actor(actor), "is asked to end".into()));
        match actor {
            Actor::Conductor(place) => self.stop_conductor(place),
            Actor::Outbox(place) => self.stop_drain(place),
        }
        true
    }

    fn node_target(&self, fault: &Fault) -> usize {
        let of_primary = matches!(fault.kind, Count::PrimaryCrash | Count::PrimaryPause);
        if of_primary {
            return self.primary;
        }
        let others: Vec<usize> = (0..self.nodes.len())
            .filter(|place| *place != self.primary)
            .collect();
        others[fault.choice % others.len()]
    }

    fn kill_node(&mut self, fault: &Fault) -> bool {
        let place = self.node_target(fault);
        if !self.nodes[place].running {
            return false;
        }
        self.crash_node(place);
        let again = self.now() + fault.length;
        self.clock.at(again, Event::NodeRestart(place));
        true
    }

    fn pause_node(&mut self, fault: &Fault) -> bool {
        let place = self.node_target(fault);
        if !self.nodes[place].works() {
            return false;
        }
        let milliseconds = fault.length / MILLISECOND;
        self.tell_fault(|names| {
            (
                names.node(place),
                format!("is paused for {milliseconds} ms"),
            )
        });
        self.nodes[place].paused = true;
        let again = self.now() + fault.length;
        self.clock.at(again, Event::NodeResume(place));
        true
    }

    fn slow_replication(&mut self, fault: &Fault) -> bool {
        let place = match fault.whom {
            Whom::Other if fault.kind == Count::SlowDisk => self.primary,
            _ => self.node_target(fault),
        };
        if fault.kind == Count::SlowDisk {
            self.tell_fault(|names| (names.node(place), "has a slow disk for a while".into()));
            self.slow_disk(place, fault.length);
        } else {
            self.tell_fault(|names| (names.node(place), "is cut off from its primary".into()));
            self.cut_replication(place, fault.length);
        }
        true
    }

    fn fail_over(&mut self) -> bool {
        let primary = self.primary;
        let fit: Vec<usize> = (0..self.nodes.len())
            .filter(|place| *place != primary && self.nodes[*place].works())
            .collect();
        if fit.is_empty() {
            return false;
        }
        let chosen = fit[self.random.usize(..fit.len())];
        let line = format!("is told to make node {} the primary", chosen + 1);
        self.tell_fault(|_| ("sentinel".into(), line));
        self.promote(chosen);
        true
    }

    fn cut_store(&mut self, fault: &Fault) -> bool {
        let actor = self.any_target(fault);
        if fault.kind == Count::LatePacket {
            self.late[actor.place()] = fault.length;
            // Whatever holds the packet up may hold the broker's heartbeats up too.
            if !fault.choice.is_multiple_of(4) {
                self.kill_channel_of(actor, fault.length);
            }
            return true;
        }
        let Some(conn) = self.conn_of(actor) else {
            return false;
        };
        if fault.kind == Count::StoreCut {
            self.tell_fault(|names| {
                (
                    names.actor(actor),
                    "loses its connection to the store".into(),
                )
            });
            self.close_conn(conn);
        } else {
            let line = "loses its connection to the store behind what it has sent";
            self.tell_fault(|names| (names.actor(actor), line.into()));
            self.lose_replies(conn);
        }
        true
    }

    fn cut_broker(&mut self, fault: &Fault) -> bool {
        let actor = self.any_target(fault);
        if fault.kind == Count::ChannelKilled {
            let line = "is given up by the broker and has not heard of it";
            self.tell_fault(|names| (names.actor(actor), line.into()));
            return self.kill_channel_of(actor, fault.extra);
        }
        self.tell_fault(|names| {
            (
                names.actor(actor),
                "loses its connection to the broker".into(),
            )
        });
        if !self.life_of(actor).running || self.life_of(actor).paused {
            return false;
        }
        match actor {
            Actor::Conductor(place) => self.cut_link_of_conductor(place, fault.extra),
            Actor::Outbox(place) => self.cut_link_of_drain(place, fault.extra),
        }
    }

    /// Every node comes back with a disk that has lost its end. No policy covers this.
    fn set_disks_back(&mut self, fault: &Fault) -> bool {
        let primary = self.primary;
        let length = self.nodes[primary].log.len();
        let lost = 1 + fault.choice % 40;
        let log = self.nodes[primary].log[..length.saturating_sub(lost)].to_vec();
        self.tell_fault(|_| {
            (
                "store".into(),
                format!("loses its last {lost} entries on every disk"),
            )
        });
        for place in 0..self.nodes.len() {
            if self.nodes[place].running {
                self.crash_node(place);
            }
            self.set_disk(place, log.clone());
            self.clock
                .at(self.clock.now() + SECOND, Event::NodeRestart(place));
        }
        self.check_gone_back();
        true
    }

    /// With fewer disks asked for than there are replicas, one that lags can be promoted.
    fn promote_laggard(&mut self) -> bool {
        let primary = self.primary;
        let laggard = (0..self.nodes.len())
            .filter(|place| *place != primary && self.nodes[*place].works())
            .min_by_key(|place| self.nodes[*place].log.len());
        let Some(laggard) = laggard else { return false };
        let line = format!("picks node {}, which lacks the most", laggard + 1);
        self.tell_fault(|_| ("sentinel".into(), line));
        self.promote(laggard);
        true
    }
}
