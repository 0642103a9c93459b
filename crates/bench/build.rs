//! Compiles the interface of ferroid-tonic-server with protox, which avoids a dependency on `protoc`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let ferroid = protox::compile(["ferroid.proto"], ["proto"])?;
    tonic_prost_build::configure().build_server(false).bytes(".").compile_fds(ferroid)?;
    Ok(())
}
