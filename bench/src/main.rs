//! `conductor-bench`: how fast each boundary is, once it has shown that it is right.
//!
//! One subcommand a boundary. Each compares what it did with an independent answer in the same run
//! and prints no speed for a wrong one. Runs on whatever thread starts it, pinned to nothing.
#![forbid(unsafe_code)]

mod deal;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Measures one boundary of a cell at a time.
///
/// Every run first compares its outcome with an independent implementation and refuses to print a
/// speed when they differ.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    boundary: Boundary,
}

#[derive(Debug, Subcommand)]
enum Boundary {
    Deal(deal::Arguments),
}

fn main() -> ExitCode {
    let Arguments { boundary } = Arguments::parse();
    let measured = match boundary {
        Boundary::Deal(arguments) => deal::run(&arguments),
    };
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("conductor-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
