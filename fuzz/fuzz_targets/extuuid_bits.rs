#![no_main]

libfuzzer_sys::fuzz_target!(|octets: &[u8]| kent_fuzz::extuuid_bits(octets));
