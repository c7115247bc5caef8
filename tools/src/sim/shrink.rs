//! Making a schedule short: fewer commands, fewer faults, for as long as the same goes wrong.
//!
//! A fault that is left out changes everything behind it, so a shorter schedule is tried with other
//! chances too: it is a schedule that goes wrong in the same way, not always a part of the first.

use super::{Fault, Plan, When, Wrong, run};
use conductor_engine::guards::Guard;

/// Chances that are tried for each shorter schedule.
const CHANCES: u64 = 40;

/// The shortest schedule that was found to go wrong in the same way.
pub(super) fn shrink(plan: Plan, broken: Option<Guard>, wrong: &Wrong) -> Plan {
    let fails = |plan: &Plan| {
        let found = run(plan, broken, false).wrong;
        found.is_some_and(|found| found.kind() == wrong.kind())
    };
    let mut best = plan;
    loop {
        let before = (best.faults.len(), best.commands);
        best = fewer_commands(best, &fails);
        best = fewer_faults(best, &fails);
        if (best.faults.len(), best.commands) == before {
            return best;
        }
    }
}

fn with_any_chance(plan: &Plan, fails: &impl Fn(&Plan) -> bool) -> Option<Plan> {
    let chances = 0..CHANCES;
    let mut plans = chances.map(|chance| Plan {
        chance: plan.chance + chance,
        // Other commands only where the same ones do not go wrong.
        script: plan.script + chance / 8,
        ..plan.clone()
    });
    plans.find(fails)
}

/// The faults of a plan with fewer commands come as much sooner.
fn sooner(faults: &[Fault], commands: usize, of: usize) -> Vec<Fault> {
    let sooner = |fault: &Fault| match fault.when {
        When::Step(step) => {
            let step = step as usize * commands / of.max(1);
            let when = When::Step(u32::try_from(step.max(1)).unwrap_or(u32::MAX));
            Fault { when, ..*fault }
        }
        When::Time(_) => *fault,
    };
    faults.iter().map(sooner).collect()
}

fn fewer_faults(mut best: Plan, fails: &impl Fn(&Plan) -> bool) -> Plan {
    let mut place = best.faults.len();
    while place > 0 {
        place -= 1;
        let mut without = best.clone();
        without.faults.remove(place);
        if let Some(shorter) = with_any_chance(&without, fails) {
            best = shorter;
        }
    }
    best
}

fn fewer_commands(best: Plan, fails: &impl Fn(&Plan) -> bool) -> Plan {
    for commands in 1..best.commands {
        let faults = sooner(&best.faults, commands, best.commands);
        for faults in [best.faults.clone(), faults] {
            let fewer = Plan {
                commands,
                faults,
                ..best.clone()
            };
            if let Some(shorter) = with_any_chance(&fewer, fails) {
                return shorter;
            }
        }
    }
    best
}
