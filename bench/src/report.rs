//! Kept runs as one page that opens without a network: what each run printed, where that was kept
//! beside its JSON under the same name, percentile curves of every histogram, throughput against
//! latency of `commit`, speeds and the share of the steps of `path`, and every figure of the JSON.

mod page;
mod plot;

use anyhow::{Context, ensure};
use page::escaped;
use plot::{Axis, Line};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const STYLE: &str = "body{font-family:sans-serif;max-width:70em;margin:2em auto;color:#222}\
    table{border-collapse:collapse;margin:.5em 0;font-size:13px}\
    th,td{border:1px solid #ccc;padding:2px 6px;text-align:left;vertical-align:top}\
    th{background:#f3f3f3}h2{border-top:2px solid #444;padding-top:.5em}";
/// Curves in one plot: more cannot be told apart.
const CURVES_MAX: usize = 8;

/// Kept runs as one page with plots, to be opened without a network
///
/// Example: conductor-bench report bench/results/2026-01-31-laptop
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Folders with what --json and --percentiles wrote, searched to the bottom
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// The page; report.html in the first folder unless given
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut files = Vec::new();
    for folder in &arguments.folders {
        find(folder, &mut files)?;
    }
    files.sort();
    let mut body = String::from("<h1>Conductor: benchmarks</h1>");
    let mut runs = 0;
    for path in with_ending(&files, "json") {
        let text = read(path)?;
        let run: Value = serde_json::from_str(&text)
            .with_context(|| format!("{} is no kept run", path.display()))?;
        let printed = fs::read_to_string(path.with_extension("txt")).ok();
        body.push_str(&section(path, &run, printed.as_deref()));
        runs += 1;
    }
    ensure!(
        runs > 0,
        "no kept run is in there; run a subcommand with --json"
    );
    body.push_str(&curves(&files)?);
    let first = &arguments.folders[0];
    let out = arguments
        .out
        .clone()
        .unwrap_or_else(|| first.join("report.html"));
    let page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <title>Conductor: benchmarks</title><style>{STYLE}</style></head><body>{body}</body></html>\n"
    );
    fs::write(&out, page).with_context(|| format!("cannot write {}", out.display()))?;
    println!("{} runs in {}", runs, out.display());
    Ok(())
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder);
    for entry in entries.with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn with_ending<'a>(files: &'a [PathBuf], ending: &'a str) -> impl Iterator<Item = &'a PathBuf> {
    let fits = move |path: &&PathBuf| path.extension().is_some_and(|found| found == ending);
    files.iter().filter(fits)
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn section(path: &Path, run: &Value, printed: Option<&str>) -> String {
    let boundary = run["boundary"].as_str().unwrap_or("unknown");
    let name = path
        .file_stem()
        .map(|name| name.to_string_lossy().into_owned());
    let mut text = format!(
        "<h2>{} <small>(conductor-bench {})</small></h2>",
        escaped(&name.unwrap_or_default()),
        escaped(boundary)
    );
    if run["versions"]["build"] == "debug" {
        text.push_str("<p><strong>A debug build: its speeds say nothing.</strong></p>");
    }
    match boundary {
        "commit" => text.push_str(&against_latency(&run["figures"])),
        "path" => {
            text.push_str(&speeds(&run["figures"]));
            text.push_str(&steps(&run["figures"]));
        }
        _ => {}
    }
    if let Some(printed) = printed {
        text.push_str(&format!("<pre>{}</pre>", escaped(printed)));
    }
    text.push_str("<details><summary>Every figure, as it stands in the JSON</summary>");
    text.push_str(&page::value(&run["figures"]));
    text.push_str("</details>");
    for part in ["settings", "machine", "versions"] {
        text.push_str(&format!("<h4>{part}</h4>{}", page::value(&run[part])));
    }
    text
}

/// A system of `path`, with the setting that differs.
fn system(row: &Value) -> String {
    let word = |name: &str| row[name].as_str().unwrap_or_default();
    match word("setting") {
        "" => word("system").to_owned(),
        setting => format!("{}, {setting}", word("system")),
    }
}

/// A bar for the median of each system.
fn speeds(figures: &Value) -> String {
    let rows = figures["systems"].as_array().into_iter().flatten();
    let medians: Vec<(String, f64)> = rows
        .filter_map(|row| {
            let median = row["commandsPerSecond"]["median"].as_f64()?;
            Some((system(row), median))
        })
        .collect();
    match medians.len() {
        0 | 1 => String::new(),
        _ => format!("<h4>Commands a second, median</h4>{}", plot::bars(&medians)),
    }
}

/// Throughput against the 99th percentile, a line for each policy and way.
fn against_latency(rows: &Value) -> String {
    let mut lines: BTreeMap<String, Line> = BTreeMap::new();
    for row in rows.as_array().into_iter().flatten() {
        let word = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let name = format!("{}, {}", word("policy"), word("way"));
        let rate = row["commandsPerSecond"].as_f64().unwrap_or_default();
        let time = row["times"]["p99"].as_f64().unwrap_or_default();
        let line = lines.entry(name.clone()).or_default();
        line.name = name;
        line.points.push((rate, time));
    }
    let lines: Vec<Line> = lines.into_values().collect();
    let across = Axis {
        title: "commands a second",
        label: power,
    };
    let up = Axis {
        title: "p99 of a transaction, microseconds",
        label: power,
    };
    plot::lines(&lines, across, up)
}

fn steps(figures: &Value) -> String {
    let mut text = String::new();
    for row in figures["systems"].as_array().into_iter().flatten() {
        let steps = row["stepPercent"].as_array();
        let shares: Vec<(String, f64)> = steps
            .into_iter()
            .flatten()
            .filter_map(|step| Some((step[0].as_str()?.to_owned(), step[1].as_f64()?)))
            .collect();
        if !shares.is_empty() {
            let name = escaped(&system(row));
            text.push_str(&format!("<h4>Time of a command by step: {name}</h4>"));
            text.push_str(&plot::shares(&shares));
        }
    }
    text
}

/// The percentile curves, in plots of those that begin alike.
fn curves(files: &[PathBuf]) -> anyhow::Result<String> {
    let mut groups: BTreeMap<String, Vec<Line>> = BTreeMap::new();
    for path in with_ending(files, "hgrm") {
        let name = path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        let group = name.split('-').take(2).collect::<Vec<_>>().join("-");
        let points = curve(&read(path)?);
        groups.entry(group).or_default().push(Line { name, points });
    }
    let mut text = String::new();
    for (group, lines) in groups {
        text.push_str(&format!("<h2>Percentiles: {}</h2>", escaped(&group)));
        for lines in lines.chunks(CURVES_MAX) {
            let across = Axis {
                title: "percentile",
                label: nines,
            };
            let up = Axis {
                title: "microseconds",
                label: power,
            };
            text.push_str(&plot::lines(lines, across, up));
        }
    }
    Ok(text)
}

/// What part is above a percentile, turned over, and the time in microseconds.
fn curve(text: &str) -> Vec<(f64, f64)> {
    let row = |line: &str| {
        let mut columns = line.split_whitespace().map(str::parse::<f64>);
        let value = columns.next()?.ok()?;
        let turned = columns.nth(2)?.ok()?;
        Some((turned, value / 1_000.0))
    };
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(row)
        .collect()
}

fn power(power: i32) -> String {
    match power {
        0..=6 => 10_u32.pow(power.unsigned_abs()).to_string(),
        _ => format!("1e{power}"),
    }
}

/// The percentile that leaves one in so many above it.
fn nines(power: i32) -> String {
    match power {
        0 => "0 %".to_owned(),
        1 => "90 %".to_owned(),
        2 => "99 %".to_owned(),
        more => {
            let digits = usize::try_from(more).map_or(0, |digits| digits - 2);
            format!("99.{} %", "9".repeat(digits))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_run_is_shown_with_what_it_printed_and_whose_each_plot_is() {
        let run = json!({
            "boundary": "path",
            "figures": { "systems": [
                { "system": "conductor", "setting": null, "commandsPerSecond": { "median": 10 },
                  "stepPercent": [["commit", 60.0], ["durable", 40.0]] },
                { "system": "conductor", "setting": "A=1", "commandsPerSecond": { "median": 5 },
                  "stepPercent": [] },
            ]},
        });
        let shown = section(Path::new("x/prefetch.json"), &run, Some("10 < 20"));
        assert!(shown.starts_with("<h2>prefetch <small>(conductor-bench path)"));
        assert!(shown.contains("<pre>10 &lt; 20</pre>"), "{shown}");
        assert!(
            shown.contains("Time of a command by step: conductor<"),
            "{shown}"
        );
        assert!(shown.contains("conductor, A=1: 5<"), "{shown}");
    }

    #[test]
    fn a_percentile_file_gives_its_curve() {
        let text = "       Value     Percentile TotalCount 1/(1-Percentile)\n\n    \
                    1200.000 0.500000000000         10           2.00\n\
                    2500607.000 1.000000000000         17\n#[Mean    =   1.0]\n";
        assert_eq!(curve(text), [(2.0, 1.2)]);
        assert_eq!([nines(0), nines(1), nines(4)], ["0 %", "90 %", "99.99 %"]);
    }
}
