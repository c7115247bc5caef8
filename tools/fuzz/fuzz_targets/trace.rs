//! Any bytes, as a trace. What must hold is in the library's module of the same name.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| conductor_fuzz::trace::check(input));
