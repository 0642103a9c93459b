//! Compiles the `.proto` files with protox, so that no `protoc` is needed, and keeps the descriptor set for reflection.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

const RECORDS: &str = "kent/store/v1/records.proto";
const API: [&str; 5] = [
    "kent/v1/types.proto",
    "kent/v1/allocator.proto",
    "kent/v1/regions.proto",
    "kent/v1/codec.proto",
    "kent/v1/admin.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let api = protox::compile(API, ["proto"])?;
    // Reflection shows the API only: the stored records are nobody else's business.
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("kent.v1.bin"), api.encode_to_vec())?;
    let records = protox::compile([RECORDS], ["proto"])?;
    for set in [api, records] {
        tonic_prost_build::configure()
            .codec_path("crate::codec::SizedCodec")
            .bytes(".")
            // In one order: a record has one form.
            .btree_map(".")
            // Written by hand.
            .extern_path(".kent.v1.PackedIdentifiers", "crate::packed::PackedIdentifiers")
            .extern_path(".google.rpc.Status", "::tonic_types::pb::Status")
            .compile_fds(set)?;
    }
    Ok(())
}
