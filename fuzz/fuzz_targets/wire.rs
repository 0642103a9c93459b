#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kent_fuzz::wire(bytes));
