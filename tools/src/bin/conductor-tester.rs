//! The command line `conductor-tester`: everything is in the library, so that tests reach it too.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    conductor_tools::tester::main()
}
