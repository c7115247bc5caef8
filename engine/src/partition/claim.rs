//! Taking ownership, on the first delivery of a new channel and never before.
//!
//! The order is what makes it safe: the epoch is raised, so that an earlier owner can no longer
//! commit; that write is waited for on two disks, so that everything before it is there too; then
//! the book and the halt are read; then the epoch is watched and must still be ours. Until that last
//! step nothing that was read is judged, because a newer owner may be writing.

use super::load::Loaded;
use super::{
    Action, BookRead, Confirmed, Epoch, Group, HaltRecord, Loader, Note, Owner, Partition, Phase,
    Remembered, StoreEvent,
};
use crate::guards::{Guard, GuardSet};
use crate::matching::Matcher;
use crate::violation::Violation;

/// How far taking ownership has come.
#[derive(Debug)]
pub(super) enum Claim {
    /// The store is being found and checked.
    Connecting,
    /// The epoch is being raised.
    Raising,
    /// The raised epoch is on its way to the disks.
    Waiting {
        epoch: Epoch,
        problem: Option<String>,
    },
    /// The book is being read.
    Loading { epoch: Epoch, loader: Box<Loader> },
    /// The epoch is being read again.
    Watching { epoch: Epoch, loaded: Box<Loaded> },
}

impl<G: GuardSet> Partition<G> {
    pub(super) fn begin_claim(&mut self) {
        self.preparation.settle();
        self.phase = Phase::Claiming(Claim::Connecting);
        self.act(Action::Connect { first: false });
    }

    pub(super) fn claiming(&mut self, event: StoreEvent) {
        let Phase::Claiming(claim) = std::mem::replace(&mut self.phase, Phase::New) else {
            return;
        };
        match event {
            StoreEvent::Lost(reason) => return self.doubt(reason),
            StoreEvent::Unavailable(reason) | StoreEvent::Full(reason) => {
                return self.pause(reason);
            }
            StoreEvent::Misconfigured(line) => return self.refuse(line),
            _ => {}
        }
        self.claim_step(claim, event);
    }

    fn claim_step(&mut self, claim: Claim, event: StoreEvent) {
        match (claim, event) {
            (Claim::Connecting, StoreEvent::Connected(guards)) => {
                if self.accept_guards(guards).is_some() {
                    self.phase = Phase::Claiming(Claim::Raising);
                    self.act(Action::RaiseEpoch);
                }
            }
            (Claim::Raising, StoreEvent::EpochRaised(epoch)) => self.await_barrier(epoch, None),
            (Claim::Waiting { epoch, .. }, StoreEvent::Confirmed(confirmed)) => {
                match self.shortfall(confirmed) {
                    None => self.load(epoch),
                    problem => self.await_barrier(epoch, problem),
                }
            }
            (Claim::Loading { epoch, mut loader }, StoreEvent::Page(page)) => {
                self.forget_prepared();
                loader.page(page);
                self.phase = Phase::Claiming(Claim::Loading { epoch, loader });
            }
            (Claim::Loading { epoch, mut loader }, StoreEvent::Unreadable { what, detail }) => {
                loader.unreadable(what, detail);
                self.phase = Phase::Claiming(Claim::Loading { epoch, loader });
            }
            (
                Claim::Loading { epoch, loader },
                StoreEvent::LoadComplete {
                    cursor,
                    remembered,
                    halted,
                    read,
                },
            ) => {
                let prepared = self.preparation.take();
                let loaded = Box::new(match prepared {
                    Some(prepared) if self.may_use_prepared(read) => {
                        prepared.seen_again(remembered, halted)
                    }
                    None if read == BookRead::Known => {
                        return self.doubt("a book was named as known that is not there".into());
                    }
                    _ => loader.finish(cursor, remembered, halted),
                });
                self.phase = Phase::Claiming(Claim::Watching { epoch, loaded });
                self.act(Action::WatchEpoch);
            }
            (Claim::Watching { epoch, loaded }, StoreEvent::EpochSeen(seen)) => {
                if seen == Some(epoch) {
                    self.judge_loaded(epoch, *loaded);
                } else {
                    self.doubt("another instance took the partition over while it loaded".into());
                }
            }
            (claim, _) => self.phase = Phase::Claiming(claim),
        }
    }

    fn await_barrier(&mut self, epoch: Epoch, problem: Option<String>) {
        if self.settings.durability.is_none() || !self.guards.holds(Guard::Barrier) {
            return self.load(epoch);
        }
        if let Some(reason) = &problem {
            self.note(Note::NotDurable {
                reason: reason.clone(),
            });
        }
        self.phase = Phase::Claiming(Claim::Waiting { epoch, problem });
        self.act(Action::AwaitDisks);
    }

    /// A page means that the cursor has moved: two books at once would be one too many.
    fn forget_prepared(&mut self) {
        if self.guards.holds(Guard::UnmovedCursor) {
            self.preparation.discard();
        }
    }

    /// A book from before the claim is used only if nobody has written since it was read.
    fn may_use_prepared(&self, read: BookRead) -> bool {
        read == BookRead::Known || !self.guards.holds(Guard::UnmovedCursor)
    }

    fn load(&mut self, epoch: Epoch) {
        let loader = Box::new(Loader::new(
            self.settings.cell.clone(),
            self.settings.hash_seed,
        ));
        self.phase = Phase::Claiming(Claim::Loading { epoch, loader });
        let command = self.seen_durable.command.clone();
        let remember = command.filter(|_| self.settings.results_kept);
        let remember = remember.map(|command| Remembered {
            result: self
                .seen_result
                .clone()
                .filter(|seen| seen.command == command),
            command,
        });
        let known = self.preparation.cursor().cloned();
        self.act(Action::Load { remember, known });
    }

    fn judge_loaded(&mut self, epoch: Epoch, loaded: Loaded) {
        // An earlier owner may have halted between this instance's first look and its epoch; behind
        // the epoch none can any more.
        if let Some(record) = loaded.halted()
            && self.guards.holds(Guard::StickyHalt)
        {
            return self.halted(record.clone());
        }
        if let Some(line) = loaded.misconfigured() {
            return self.refuse(line.clone());
        }
        self.epoch = Some(epoch);
        // What cannot be read says nothing of how far the store has come.
        if let Err(violation) = loaded
            .readable()
            .and_then(|()| self.check_not_gone_back(&loaded))
            .and_then(|()| loaded.audit())
        {
            return self.begin_halt(HaltRecord {
                reason: violation.to_string(),
                command: None,
                epoch,
            });
        }
        self.tries = 0;
        self.counters.claims += 1;
        self.note(Note::Claimed {
            epoch,
            orders: loaded.orders(),
            skipped: loaded.skipped(),
            rewritten: loaded.rewrites().len(),
            sequence: loaded.cursor().sequence,
        });
        for member in loaded.skipped_members() {
            self.note(Note::SkippedMember {
                member: member.clone(),
            });
        }
        self.counters.skipped_members = loaded.skipped() as u64;
        let (book, cursor, rewrites) = loaded.into_parts();
        let rewritten = (!rewrites.is_empty()).then(|| Group::of_rewrites(rewrites, &cursor));
        if self.seen_durable.command != cursor.command {
            self.seen_result = None;
        }
        self.seen_durable = cursor.clone();
        let cell = self.settings.cell.clone();
        let read = Matcher::with_guards(cell, book, cursor, self.guards);
        let matcher = self.kept.take().unwrap_or(read);
        self.phase = Phase::Owner(Box::new(Owner::new(epoch, matcher, rewritten)));
        self.proceed();
    }

    /// A store that has forgotten what it confirmed to this process has lost acknowledged work.
    fn check_not_gone_back(&self, loaded: &Loaded) -> Result<(), Violation> {
        if !self.guards.holds(Guard::NeverForget) {
            return Ok(());
        }
        let (found, seen) = (loaded.cursor().sequence, self.seen_durable.sequence);
        if found < seen {
            let detail =
                format!("its last sequence is {found}, but this process saw {seen} on its disks");
            return Err(Violation::StoreWentBack { detail });
        }
        match &self.seen_durable.command {
            Some(command) if self.settings.results_kept && !loaded.remembered() => {
                let detail = format!(
                    "the record of command {command} is not there, or is not the one that this \
                     process saw on its disks"
                );
                Err(Violation::StoreWentBack { detail })
            }
            _ => Ok(()),
        }
    }

    /// What is missing for durability, in a sentence; `None` when nothing is.
    pub(super) fn shortfall(&self, confirmed: Confirmed) -> Option<String> {
        let needed = self.settings.durability?;
        if needed.is_met_by(confirmed) {
            return None;
        }
        if !confirmed.primary_disk {
            return Some("the primary has not written to its disk in time".to_owned());
        }
        Some(format!(
            "{} of {} replicas confirmed on disk; bring the missing ones back",
            confirmed.replica_disks.min(confirmed.replicas_in_memory),
            needed.replicas
        ))
    }
}
