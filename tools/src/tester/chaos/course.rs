//! A run of faults under traffic: strike, undo, wait until the site is whole, and measure.
//!
//! One fault at a time, or two that overlap. Between two strikes the cell must acknowledge again:
//! a fault from which it does not recover in time ends the run with its story. What the run is held
//! against at the end is the audit, which knows nothing of faults.

use super::kind::Part;
use super::outcome::Outcome;
use super::schedule::{Planned, Strike};
use super::site::Site;
use super::strike::Struck;
use super::whole::wait_whole;
use crate::cell::Output;
use crate::client::Pages;
use crate::tester::audit::{Audit, audit};
use crate::tester::traffic::{Finished, Traffic, TrafficOptions};
use anyhow::Context;
use std::time::{Duration, Instant};

/// How long the site may take to be whole again: several times what any fault should take.
const WHOLE_WITHIN: Duration = Duration::from_secs(120);
/// How long the answers to what is published from now on may take on a site that is whole.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);
/// So many new commands must be answered before a site counts as acknowledging.
const ANSWERS: u64 = 20;
/// How long everything that is under way may take at the end, with queues to drain.
const FINISHED_WITHIN: Duration = Duration::from_secs(180);
/// How long the last events may take to arrive.
const AUDITED_WITHIN: Duration = Duration::from_secs(120);
/// Between two looks at whether a fault is due to end.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A run under way.
pub(in crate::tester) struct Course<'a> {
    site: &'a Site,
    traffic: Traffic,
    output: &'a Output,
    began: Instant,
    outcomes: Vec<Outcome>,
    under_way: Option<Planned>,
}

impl<'a> Course<'a> {
    /// Starts traffic and waits until it is answered.
    pub(in crate::tester) fn begin(
        site: &'a Site,
        traffic: TrafficOptions,
        output: &'a Output,
    ) -> anyhow::Result<Self> {
        let traffic = Traffic::start(site.settings(), traffic)?;
        let course = Self {
            site,
            traffic,
            output,
            began: Instant::now(),
            outcomes: Vec::new(),
            under_way: None,
        };
        course.answers(ANSWERS)?;
        wait_whole(site, &[Part::Broker], WHOLE_WITHIN)?;
        Ok(course)
    }

    /// The traffic.
    pub(in crate::tester) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// What came of the faults so far.
    pub(in crate::tester) fn outcomes(&self) -> &[Outcome] {
        &self.outcomes
    }

    /// The fault that struck last, if the site did not get over it.
    pub(in crate::tester) fn under_way(&self) -> Option<Planned> {
        self.under_way
    }

    /// Waits until so many commands that are published from now on are answered.
    pub(in crate::tester) fn answers(&self, count: u64) -> anyhow::Result<()> {
        let answered = self
            .traffic
            .wait_acknowledged(Instant::now(), count, ANSWERED_WITHIN);
        answered.context("the cell does not acknowledge").map(drop)
    }

    /// One strike, from the wait before it to the moment when the cell is whole and acknowledges.
    pub(in crate::tester) fn strike(&mut self, strike: &Strike) -> anyhow::Result<()> {
        self.answers(strike.after_answers)?;
        self.under_way = strike.faults.first().copied();
        let began = Instant::now();
        let struck = self.bring_about(strike)?;
        let parts: Vec<Part> = struck
            .iter()
            .map(|it| it.planned.kind.facts().part)
            .collect();
        let started_again = wait_whole(self.site, &parts, WHOLE_WITHIN)?;
        self.answers(ANSWERS)?;
        let (silence, whole) = (self.traffic.longest_silence(began), began.elapsed());
        let companion = (struck.len() > 1).then(|| struck.iter().map(|it| it.planned.number));
        let companions: Vec<u64> = companion.into_iter().flatten().collect();
        for fault in &struck {
            let outcome = Outcome {
                number: fault.planned.number,
                kind: fault.planned.kind,
                target: fault.target.clone(),
                planned: fault.planned.hold.to_string(),
                started_again: started_again.clone(),
                at_seconds: began.duration_since(self.began).as_secs_f64(),
                held_ms: milliseconds(fault.held.unwrap_or_default()),
                silence_ms: milliseconds(silence),
                whole_ms: milliseconds(whole),
                failed_over: fault.failed_over,
                overlapping: companions
                    .iter()
                    .copied()
                    .filter(|number| *number != fault.planned.number)
                    .collect(),
            };
            self.output.note(&outcome);
            self.outcomes.push(outcome);
        }
        self.under_way = None;
        Ok(())
    }

    /// Strikes with every fault and undoes each when it is due.
    fn bring_about(&mut self, strike: &Strike) -> anyhow::Result<Vec<Struck<'a>>> {
        let began = Instant::now();
        let mut waiting = strike.faults.iter();
        let mut struck: Vec<Struck<'a>> = Vec::with_capacity(strike.faults.len());
        loop {
            let next_is_due = struck.is_empty() || began.elapsed() >= strike.apart;
            let next = if next_is_due { waiting.next() } else { None };
            if let Some(next) = next {
                self.under_way = Some(*next);
                struck.push(Struck::strike(self.site, *next)?);
            }
            let mut over = waiting.len() == 0;
            for fault in &mut struck {
                over &= fault.end_when_due(self.site)?;
            }
            if over {
                return Ok(struck);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Ends the traffic, waits until all that it caused is done, and compares the four sides.
    pub(in crate::tester) fn end(self) -> anyhow::Result<(Finished, Audit)> {
        let finished = self.traffic.finish(FINISHED_WITHIN);
        let finished = finished.context("what was published is not all done")?;
        let pages = Pages::new(self.site.pages());
        let settings = self.site.settings();
        let found = audit(settings, &pages, &finished.record, AUDITED_WITHIN)?;
        Ok((finished, found))
    }
}

fn milliseconds(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
