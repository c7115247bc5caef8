//! Any bytes, as what a store answers. What must hold is in the library's module of the same name.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| conductor_fuzz::replies::check(input));
