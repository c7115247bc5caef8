//! Stopping for good.
//!
//! A halt is written under the fence and honoured by every instance until a person lifts it. The
//! channel is closed only then: a successor that was handed the deliveries sooner could raise the
//! epoch and go on over what was found. When
//! another instance has taken over before it could be written, the halt is no longer ours to write
//! and the partition steps back, with one exception: a transaction that was half applied has
//! damaged the store itself, so the epoch is raised again and the halt written whoever owns it now.

use super::{Action, Epoch, Executed, Guards, HaltRecord, Note, Partition, Phase, StoreEvent};
use crate::guards::GuardSet;
use crate::limits::HALT_POLL_MS;

/// A halt on its way into the store.
#[derive(Debug)]
pub(super) struct Halting {
    record: HaltRecord,
    /// Whether the halt must be written even if another instance owns the partition now.
    forced: bool,
    step: HaltStep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HaltStep {
    /// The halt was sent under the fence.
    Writing,
    /// It was applied and is on its way to the disks.
    Waiting,
    /// The connection was lost before that; the store is being found again.
    Connecting,
    /// The epoch is being raised again.
    Raising,
    /// The epoch is being read again.
    Watching(Epoch),
    /// Waiting before the next try.
    Pausing,
}

impl<G: GuardSet> Partition<G> {
    /// Halts under the fence that this partition holds.
    pub(super) fn begin_halt(&mut self, record: HaltRecord) {
        self.write_halt(record, false);
    }

    /// Halts whoever owns the partition now.
    pub(super) fn force_halt(&mut self, record: HaltRecord) {
        self.write_halt(record, true);
    }

    fn write_halt(&mut self, record: HaltRecord, forced: bool) {
        self.counters.halts += 1;
        self.note(Note::Halting {
            record: record.clone(),
        });
        self.act(Action::WriteHalt(record.clone()));
        self.phase = Phase::Halting(Halting {
            record,
            forced,
            step: HaltStep::Writing,
        });
    }

    pub(super) fn halting(&mut self, event: StoreEvent) {
        let Phase::Halting(halting) = std::mem::replace(&mut self.phase, Phase::New) else {
            return;
        };
        let Halting {
            record,
            forced,
            step,
        } = halting;
        match (step, event) {
            (HaltStep::Writing, StoreEvent::Executed(Executed::Committed { .. })) => {
                if self.settings.durability.is_none() {
                    return self.halted(record);
                }
                self.halt_step(record, true, HaltStep::Waiting);
            }
            (HaltStep::Writing, StoreEvent::Executed(Executed::Fenced)) if !forced => {
                self.doubt("another instance took the partition over before it halted".into());
            }
            (HaltStep::Waiting, StoreEvent::Confirmed(confirmed)) => {
                if self.shortfall(confirmed).is_none() {
                    return self.halted(record);
                }
                self.act(Action::AwaitDisks);
                self.halt_step(record, true, HaltStep::Waiting);
            }
            (
                HaltStep::Connecting,
                StoreEvent::Connected(Guards {
                    halted: Some(found),
                    ..
                }),
            ) => {
                self.halted(found);
            }
            (HaltStep::Connecting, StoreEvent::Connected(_)) => {
                self.act(Action::RaiseEpoch);
                self.halt_step(record, forced, HaltStep::Raising);
            }
            (HaltStep::Raising, StoreEvent::EpochRaised(epoch)) => {
                self.act(Action::WatchEpoch);
                self.halt_step(record, forced, HaltStep::Watching(epoch));
            }
            (HaltStep::Watching(epoch), StoreEvent::EpochSeen(Some(seen))) if seen == epoch => {
                self.act(Action::WriteHalt(record.clone()));
                self.halt_step(record, forced, HaltStep::Writing);
            }
            (step, event) => self.halt_setback(record, forced, step, &event),
        }
    }

    fn halt_step(&mut self, record: HaltRecord, forced: bool, step: HaltStep) {
        self.phase = Phase::Halting(Halting {
            record,
            forced,
            step,
        });
    }

    /// Anything but progress: try again from the start while the halt must be written, else step
    /// back as for any doubt.
    fn halt_setback(
        &mut self,
        record: HaltRecord,
        forced: bool,
        step: HaltStep,
        event: &StoreEvent,
    ) {
        let unrelated = matches!(
            event,
            StoreEvent::Page(_)
                | StoreEvent::LookedUp(_)
                | StoreEvent::Inspected
                | StoreEvent::Confirmed(_)
        ) || (step == HaltStep::Writing || step == HaltStep::Waiting)
            && matches!(event, StoreEvent::EpochSeen(_));
        if unrelated {
            return self.halt_step(record, forced, step);
        }
        if !forced {
            return self.doubt("the halt could not be written".into());
        }
        self.act(Action::Disconnect);
        self.note(Note::Waiting {
            reason: "the halt could not be written yet".into(),
        });
        self.act(Action::Pause(HALT_POLL_MS));
        self.halt_step(record, forced, HaltStep::Pausing);
    }

    pub(super) fn halt_again(&mut self) {
        if let Phase::Halting(halting) = &mut self.phase
            && halting.step == HaltStep::Pausing
        {
            halting.step = HaltStep::Connecting;
            self.act(Action::Connect { first: false });
        }
    }
}
