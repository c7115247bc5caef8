//! Processor time of a process and of all that it started.

use std::collections::HashMap;
use std::fs;

/// The kernel tells the time of processes in hundredths of a second, on every machine.
const TICKS_A_SECOND: f64 = 100.0;

/// Seconds of processor time that a process and its descendants have used so far.
pub(crate) fn seconds(process: u32) -> f64 {
    let all = processes();
    let mut ticks = 0;
    let mut open = vec![process];
    while let Some(parent) = open.pop() {
        ticks += all.get(&parent).map_or(0, |one| one.ticks);
        let children = all.iter().filter(|(_, one)| one.parent == parent);
        open.extend(children.map(|(process, _)| *process));
    }
    f64::from(ticks) / TICKS_A_SECOND
}

/// Seconds of processor time that a process has used so far, without those that it started.
pub(crate) fn seconds_alone(process: u32) -> f64 {
    one(process).map_or(0.0, |one| f64::from(one.ticks) / TICKS_A_SECOND)
}

struct One {
    parent: u32,
    ticks: u32,
}

fn processes() -> HashMap<u32, One> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return HashMap::new();
    };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers
        .filter_map(|process| Some((process, one(process)?)))
        .collect()
}

fn one(process: u32) -> Option<One> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in brackets, may hold anything; the fields behind it begin with the state.
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let number = |place: usize| fields.get(place)?.parse::<u32>().ok();
    Some(One {
        parent: number(1)?,
        ticks: number(11)? + number(12)?,
    })
}
