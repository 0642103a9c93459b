//! Compiles the part of etcd's API that is used with protox, so that no `protoc` is needed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let etcd = protox::compile(["etcd.proto"], ["proto"])?;
    tonic_prost_build::configure().build_server(false).bytes(".").compile_fds(etcd)?;
    Ok(())
}
