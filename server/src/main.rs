//! To be written in this session.
fn main() {}
