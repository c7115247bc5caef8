//! Which fault strikes when: a pure function of the seed.
//!
//! Kinds come in rounds, each round in an order of its own, so that after any number of faults every
//! kind has struck equally often, give or take one. The same holds for the spans from which a kind's
//! length is drawn. A schedule has no end: the first hundred faults of a seed are the same whether a
//! hundred are asked for or a thousand, so a run can be repeated up to the fault that mattered.
//!
//! A moment is counted in answers and not in time, so that it lies at the same place of the load on
//! a fast machine and on a slow one.

use super::kind::{FaultKind, Span};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Answers between the moment when the site is whole and the next strike, at most.
const ANSWERS_BETWEEN_MAX: u64 = 300;
/// The second of two overlapping faults comes at most so long after the first.
const APART_MAX_MS: u64 = 2_000;

/// What a schedule is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleOptions {
    /// Decides everything that is left to chance.
    pub seed: u64,
    /// The kinds, each as often as any other.
    pub kinds: Vec<FaultKind>,
    /// Of a hundred strikes, how many bring a second fault of another part.
    pub overlap_percent: u8,
}

/// How long a fault lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// So long.
    For(Duration),
    /// Until Sentinel names another primary, and then so long.
    PastFailover(Duration),
    /// There is nothing to undo.
    Moment,
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its place in the run, from one.
    pub number: u64,
    /// Its kind.
    pub kind: FaultKind,
    /// How long it lasts.
    pub hold: Hold,
    /// Chooses among several that could be struck.
    pub choice: u64,
}

/// One strike: a fault, or two that overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strike {
    /// It comes after so many more answers.
    pub after_answers: u64,
    /// Its faults.
    pub faults: Vec<Planned>,
    /// How long after the first the second comes.
    pub apart: Duration,
}

/// An endless row of strikes.
#[derive(Clone, Debug)]
pub struct Schedule {
    options: ScheduleOptions,
    random: Rng,
    struck: u64,
    kinds: Vec<FaultKind>,
    spans: BTreeMap<FaultKind, Vec<Span>>,
}

impl Schedule {
    /// The schedule of these options. Without a kind it has no strike.
    pub fn new(options: ScheduleOptions) -> Self {
        Self {
            random: Rng::with_seed(options.seed),
            options,
            struck: 0,
            kinds: Vec::new(),
            spans: BTreeMap::new(),
        }
    }

    fn planned(&mut self, kind: FaultKind) -> Planned {
        self.struck += 1;
        Planned {
            number: self.struck,
            kind,
            hold: self.hold(kind),
            choice: self.random.u64(..),
        }
    }

    fn next_kind(&mut self) -> Option<FaultKind> {
        if self.kinds.is_empty() {
            self.kinds.clone_from(&self.options.kinds);
            self.random.shuffle(&mut self.kinds);
        }
        self.kinds.pop()
    }

    /// The next kind of another part, if it is the next one's turn.
    fn companion(&mut self, first: FaultKind) -> Option<FaultKind> {
        let next = self.next_kind()?;
        if next.facts().part == first.facts().part {
            self.kinds.push(next);
            return None;
        }
        Some(next)
    }

    fn hold(&mut self, kind: FaultKind) -> Hold {
        let left = self.spans.entry(kind).or_default();
        if left.is_empty() {
            left.extend_from_slice(kind.facts().spans);
            self.random.shuffle(left);
        }
        let milliseconds =
            |random: &mut Rng, from, to| Duration::from_millis(random.u64(from..=to));
        match left.pop().unwrap_or(Span::Moment) {
            Span::Between(from, to) => Hold::For(milliseconds(&mut self.random, from, to)),
            Span::PastFailover(most) => Hold::PastFailover(milliseconds(&mut self.random, 0, most)),
            Span::Moment => Hold::Moment,
        }
    }
}

impl Iterator for Schedule {
    type Item = Strike;

    fn next(&mut self) -> Option<Strike> {
        let after_answers = self.random.u64(1..=ANSWERS_BETWEEN_MAX);
        let kind = self.next_kind()?;
        let mut faults = vec![self.planned(kind)];
        if self.random.u8(..100) < self.options.overlap_percent
            && let Some(second) = self.companion(kind)
        {
            faults.push(self.planned(second));
        }
        let apart = Duration::from_millis(self.random.u64(..=APART_MAX_MS));
        Some(Strike {
            after_answers,
            faults,
            apart,
        })
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hold::For(length) => write!(out, "for {:.1} s", length.as_secs_f64()),
            Hold::PastFailover(length) => {
                write!(out, "until {:.1} s past a failover", length.as_secs_f64())
            }
            Hold::Moment => out.write_str("for a moment"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(seed: u64, overlap_percent: u8) -> ScheduleOptions {
        ScheduleOptions {
            seed,
            kinds: FaultKind::all().collect(),
            overlap_percent,
        }
    }

    fn strikes(seed: u64, overlap_percent: u8, count: usize) -> Vec<Strike> {
        Schedule::new(options(seed, overlap_percent))
            .take(count)
            .collect()
    }

    #[test]
    fn a_seed_gives_the_same_schedule_and_another_gives_another() {
        assert_eq!(strikes(7, 30, 200), strikes(7, 30, 200));
        assert_ne!(strikes(7, 30, 200), strikes(8, 30, 200));
        assert_eq!(strikes(7, 30, 50), strikes(7, 30, 200)[..50]);
    }

    #[test]
    fn every_kind_strikes_equally_often_and_numbers_have_no_gap() {
        for overlap in [0, 50, 100] {
            let faults: Vec<Planned> = strikes(3, overlap, 95)
                .into_iter()
                .flat_map(|strike| strike.faults)
                .collect();
            assert!(
                (1..)
                    .zip(&faults)
                    .all(|(number, fault)| fault.number == number)
            );
            let counts = FaultKind::all()
                .map(|kind| faults.iter().filter(|fault| fault.kind == kind).count());
            let counts: Vec<usize> = counts.collect();
            let (least, most) = (counts.iter().min(), counts.iter().max());
            assert!(most.unwrap() - least.unwrap() <= 1, "{counts:?}");
        }
    }

    #[test]
    fn every_span_of_a_kind_comes_in_its_turn() {
        let kind = FaultKind::ConductorPause;
        let only = ScheduleOptions {
            kinds: vec![kind],
            ..options(5, 0)
        };
        let spans = kind.facts().spans.len();
        let holds: Vec<Hold> = Schedule::new(only)
            .take(spans)
            .map(|strike| strike.faults[0].hold)
            .collect();
        for span in kind.facts().spans {
            let Span::Between(from, to) = *span else {
                panic!("a pause lasts from and to");
            };
            let fits = |hold: &Hold| match hold {
                Hold::For(length) => {
                    (from..=to).contains(&u64::try_from(length.as_millis()).unwrap())
                }
                _ => false,
            };
            assert!(holds.iter().any(fits), "{span:?} in {holds:?}");
        }
    }

    #[test]
    fn two_faults_at_once_never_strike_the_same_part() {
        let both: Vec<Strike> = strikes(11, 100, 300)
            .into_iter()
            .filter(|strike| strike.faults.len() == 2)
            .collect();
        assert!(both.len() > 200, "{}", both.len());
        for strike in both {
            let parts: Vec<_> = strike
                .faults
                .iter()
                .map(|it| it.kind.facts().part)
                .collect();
            assert_ne!(parts[0], parts[1]);
        }
    }
}
