#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kent_fuzz::stored_records(bytes));
