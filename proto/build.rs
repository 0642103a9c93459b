//! Compiles the `.proto` files and writes their descriptor set for server reflection. protox compiles them in process, so a build
//! needs no `protoc`.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

const RECORDS: &str = "kent/store/v1/records.proto";
const API: [&str; 6] = [
    "kent/v1/types.proto",
    "kent/v1/allocator.proto",
    "kent/v1/regions.proto",
    "kent/v1/codec.proto",
    "kent/v1/admin.proto",
    "kent/v1/access.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let api = protox::compile(API, ["proto"])?;
    // Reflection shows only the API: the records of the store are internal.
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("kent.v1.bin"), api.encode_to_vec())?;
    let records = protox::compile([RECORDS], ["proto"])?;
    for set in [api, records] {
        tonic_prost_build::configure()
            .codec_path("crate::codec::SizedCodec")
            .bytes(".")
            // A `BTreeMap` has a fixed order, so equal records always have the same bytes.
            .btree_map(".")
            // Written by hand in `packed.rs`.
            .extern_path(".kent.v1.PackedIdentifiers", "crate::packed::PackedIdentifiers")
            .extern_path(".google.rpc.Status", "::tonic_types::pb::Status")
            .compile_fds(set)?;
    }
    Ok(())
}
