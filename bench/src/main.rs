//! `conductor-bench`: how fast each boundary is, once it has shown that it is right.
//!
//! One subcommand a boundary. Each compares what it did with an independent answer in the same run
//! and prints no speed for a wrong one. Runs on whatever thread starts it, pinned to nothing.
#![forbid(unsafe_code)]

mod bare;
mod baseline;
mod bed;
mod book;
mod commit;
mod connection;
mod cpu;
mod deal;
mod entry;
mod figures;
mod gate;
mod meb;
mod outbox;
mod path;
mod record;
mod recover;
mod report;
mod session;
mod storage;
mod stores;

use clap::{Parser, Subcommand};
use record::Keep;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measures one boundary of a cell at a time.
///
/// Every run first compares its outcome with an independent answer and refuses to print a speed
/// when they differ.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(flatten)]
    keep: Keep,
    #[command(subcommand)]
    boundary: Boundary,
}

#[derive(Debug, Subcommand)]
enum Boundary {
    /// Moves the traffic of `path --bare`; started by it
    #[command(hide = true)]
    BareConductor(bare::process::Arguments),
    Baseline(baseline::Arguments),
    Book(book::Arguments),
    Commit(commit::Arguments),
    Deal(deal::Arguments),
    Gate(gate::Arguments),
    Meb(meb::Arguments),
    Outbox(outbox::Arguments),
    Path(path::Arguments),
    Recover(recover::Arguments),
    Report(report::Arguments),
    Storage(storage::Arguments),
}

fn main() -> ExitCode {
    let Arguments { boundary, keep } = Arguments::parse();
    let measured = match boundary {
        Boundary::BareConductor(arguments) => bare::process::run(&arguments),
        Boundary::Baseline(arguments) => baseline::run(&arguments, &keep),
        Boundary::Book(arguments) => book::run(&arguments, &keep),
        Boundary::Commit(arguments) => commit::run(&arguments, &keep),
        Boundary::Deal(arguments) => deal::run(&arguments, &keep),
        Boundary::Gate(arguments) => gate::run(&arguments, &keep),
        Boundary::Meb(arguments) => meb::run(&arguments, &keep),
        Boundary::Outbox(arguments) => outbox::run(&arguments, &keep),
        Boundary::Path(arguments) => path::run(&arguments, &keep),
        Boundary::Recover(arguments) => recover::run(&arguments, &keep),
        Boundary::Report(arguments) => report::run(&arguments),
        Boundary::Storage(arguments) => storage::run(&arguments, &keep),
    };
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("conductor-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
