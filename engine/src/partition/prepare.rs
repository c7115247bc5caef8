//! Reading the book while standing by, so that taking over needs no reading.
//!
//! Another process may be writing meanwhile, so what was read counts only while the store's cursor
//! is the one from before the read: every transaction that changes a book moves it. That is looked
//! at three times: at the end of the read, at each look at the idle connection, and by the claim,
//! behind the raised epoch, when nobody else can move it any more. A book that is out of date is
//! dropped at once. It is read again once the cursor has stood still between two looks, and not
//! before a number of looks have gone by, since a read of a large book keeps the store busy.

use super::load::{Loaded, Loader};
use super::{Action, BookRead, HaltRecord, Note, Partition, StoreEvent};
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
    /// Looks since the last read began.
    looks: u32,
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

    /// A read that is not over is given up: its connection is about to be replaced.
    pub(super) fn settle(&mut self) {
        if let State::Reading(_) = self.state {
            self.state = State::Nothing;
        }
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
    pub(super) fn prepare_book(&mut self) {
        let loader = Loader::new(self.settings.cell.clone(), self.settings.hash_seed);
        self.preparation = Preparation {
            state: State::Reading(Box::new(loader)),
            ..Preparation::default()
        };
        self.act(Action::Load {
            remember: None,
            known: None,
        });
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
        self.preparation.seen = cursor.as_ref().ok().cloned();
        let mut loaded = loader.finish(cursor, true, halted);
        let still = read == BookRead::Still || !self.guards.holds(Guard::UnmovedCursor);
        if !still || !loaded.is_faultless() {
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
        preparation.looks = preparation.looks.saturating_add(1);
        let outdated = preparation
            .cursor()
            .is_some_and(|it| Some(it) != cursor.as_ref());
        if outdated && self.guards.holds(Guard::UnmovedCursor) {
            preparation.state = State::Nothing;
        }
        let stands_still = preparation.seen == cursor;
        preparation.seen = cursor;
        let nothing = matches!(preparation.state, State::Nothing);
        if nothing && stands_still && preparation.looks >= PREPARE_AGAIN_LOOKS {
            self.prepare_book();
        }
    }
}
