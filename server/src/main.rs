//! The `kentd` program. Its code is in the library, which the compiler optimizes as one crate: here it would compile
//! each async function of the library again.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    kentd::run()
}
