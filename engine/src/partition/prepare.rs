//! Reading the book while standing by, so that taking over needs no reading.
//!
//! Another process may be writing meanwhile, so what was read counts only while the store's cursor
//! is the one from before the read: whoever changes a book moves it. That is looked at with every
//! look at the idle connection, during the read and at its end, and by the claim, behind the raised
//! epoch, when nobody else can move it any more. A claim that finds another store, or the same one
//! with another history, uses nothing of it either: two histories can come to the same cursor.
//!
//! A read of a large book keeps the store busy. So it begins only when the cursor was the same at
//! two looks, ends as soon as the cursor has moved, and is not begun again before a number of looks
//! have gone by; a doubt does not shorten that. What was read and needs a judgement is not kept, and
//! not read again while the cursor stands where it stood.
//!
//! Older members that an owner brings into today's form are the one change that may leave the cursor
//! where it is: a book with such a member needs a judgement and is not kept.

use super::load::{Loaded, Loader};
use super::{Action, BookRead, Guards, HaltRecord, Note, Partition, StoreEvent};
use crate::guards::{Guard, GuardSet};
use crate::limits::PREPARE_AGAIN_LOOKS;
use crate::staging::Cursor;

/// How far it has come.
#[derive(Debug, Default)]
enum State {
    /// There is nothing that could be used.
    #[default]
    Nothing,
    /// The book is being read.
    Reading(Box<Loader>),
    /// Everything was read and is as it must be.
    Ready(Box<Loaded>),
}

/// A book that was read while standing by.
#[derive(Debug, Default)]
pub(super) struct Preparation {
    state: State,
    /// The cursor at the last look.
    seen: Option<Cursor>,
    /// Where the store stood when what was read needed a judgement.
    faulty: Option<Cursor>,
    /// Looks since the last read began; none has begun yet where there is no number.
    looks: Option<u32>,
    /// The history of the store that is connected, and of the one that was read.
    history: Option<String>,
}

impl Preparation {
    /// Where the store stood when the book was read, if there is one.
    pub(super) fn cursor(&self) -> Option<&Cursor> {
        match &self.state {
            State::Ready(loaded) => Some(loaded.cursor()),
            _ => None,
        }
    }

    /// Orders of the book, if there is one.
    pub(super) fn orders(&self) -> Option<usize> {
        match &self.state {
            State::Ready(loaded) => Some(loaded.orders()),
            _ => None,
        }
    }

    /// A store was connected. A book from another one, or from another history, is of no use.
    pub(super) fn connected(&mut self, guards: &Guards) {
        if self.history != guards.history {
            self.discard();
            self.history.clone_from(&guards.history);
        }
    }

    /// A read that is not over is given up: its connection is about to be replaced.
    pub(super) fn settle(&mut self) {
        if let State::Reading(_) = self.state {
            self.state = State::Nothing;
        }
    }

    /// What is left over a doubt: how long ago the store was last read, and where that was no use.
    pub(super) fn doubted(&mut self) {
        self.discard();
        self.seen = None;
    }

    /// Drops what was read, or is being read.
    pub(super) fn discard(&mut self) {
        self.state = State::Nothing;
    }

    /// Hands the book out.
    pub(super) fn take(&mut self) -> Option<Box<Loaded>> {
        match std::mem::take(&mut self.state) {
            State::Ready(loaded) => Some(loaded),
            _ => None,
        }
    }
}

impl<G: GuardSet> Partition<G> {
    /// Begins to read the book while nothing else is asked of the store.
    fn prepare_book(&mut self) {
        let loader = Loader::new(self.settings.cell.clone(), self.settings.hash_seed);
        self.preparation.state = State::Reading(Box::new(loader));
        self.preparation.looks = Some(0);
        self.act(Action::Prepare);
    }

    /// What comes of it. A store that is not as it must be is the next owner's to judge.
    pub(super) fn preparing(&mut self, event: StoreEvent) {
        let State::Reading(loader) = &mut self.preparation.state else {
            return;
        };
        match event {
            StoreEvent::Page(page) => loader.page(page),
            StoreEvent::Unreadable { what, detail } => loader.unreadable(what, detail),
            StoreEvent::LoadComplete {
                cursor,
                halted,
                read,
                ..
            } => self.prepared(cursor, halted, read),
            _ => {}
        }
    }

    fn prepared(
        &mut self,
        cursor: Result<Cursor, String>,
        halted: Option<HaltRecord>,
        read: BookRead,
    ) {
        let State::Reading(loader) = std::mem::take(&mut self.preparation.state) else {
            return;
        };
        if read != BookRead::Still && self.guards.holds(Guard::UnmovedCursor) {
            return;
        }
        let found = cursor.as_ref().ok().cloned();
        let mut loaded = loader.finish(cursor, true, halted);
        if let Err(fault) = loaded.judge_in_advance() {
            self.preparation.faulty = found;
            return self.note(Note::NotPrepared { fault });
        }
        // A store without a cursor was never written to by an owner; whoever fills it by hand does
        // not move it either. There is next to nothing to read in it.
        if found.is_none_or(|cursor| cursor == Cursor::default()) {
            return;
        }
        self.note(Note::Prepared {
            orders: loaded.orders(),
            sequence: loaded.cursor().sequence,
        });
        self.preparation.state = State::Ready(Box::new(loaded));
    }

    /// The idle connection was looked at, and the store stood there.
    pub(super) fn looked_at(&mut self, cursor: Option<Cursor>) {
        let preparation = &mut self.preparation;
        preparation.looks = preparation.looks.map(|looks| looks.saturating_add(1));
        let ready = preparation.cursor();
        let outdated = ready.is_some_and(|it| Some(it) != cursor.as_ref());
        if outdated && self.guards.holds(Guard::UnmovedCursor) {
            preparation.discard();
        }
        let stands_still = cursor.is_some() && preparation.seen == cursor;
        let faulty = preparation.faulty == cursor;
        preparation.seen = cursor;
        let nothing = matches!(preparation.state, State::Nothing);
        let due = preparation
            .looks
            .is_none_or(|looks| looks >= PREPARE_AGAIN_LOOKS);
        if nothing && stands_still && due && !faulty {
            self.prepare_book();
        }
    }
}
