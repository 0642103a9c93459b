//! Compiles the part of etcd's API that Kent uses. protox compiles it without `protoc`, so a build needs no extra tool.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let etcd = protox::compile(["etcd.proto"], ["proto"])?;
    tonic_prost_build::configure().build_server(false).bytes(".").compile_fds(etcd)?;
    Ok(())
}
