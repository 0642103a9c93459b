//! The Rust code of the .proto files, and the descriptor set for server reflection. The repository contains them, because
//! compiling protox and prost-build would take 7 % of the time of a first build.

use std::{fs, path::Path};

use anyhow::Context;
use prost::Message;
use prost_build::{Config, Service, ServiceGenerator};
use tonic_prost_build::Builder;

use crate::methods;

const RECORDS: &str = "kent/store/v1/records.proto";

/// The files of the API, in the order of the API reference.
pub(crate) const API: [&str; 7] = [
    "kent/v1/allocator.proto",
    "kent/v1/regions.proto",
    "kent/v1/layouts.proto",
    "kent/v1/codec.proto",
    "kent/v1/access.proto",
    "kent/v1/admin.proto",
    "kent/v1/types.proto",
];

/// The directories of the generated code.
const OURS: &str = "proto/src/generated";
const ETCD: &str = "crates/store/src/etcd/generated";
const FERROID: &str = "crates/bench/src/peers/generated";

/// Writes the code below `root`. protox compiles the .proto files of the repository without `protoc`.
///
/// # Errors
///
/// If a .proto file does not compile, or a file cannot be written.
pub(crate) fn write(root: &Path) -> anyhow::Result<()> {
    let protos = |package: &str| crate::root().join(package).join("proto");
    let out = |directory: &str| -> anyhow::Result<Builder> {
        let directory = root.join(directory);
        fs::create_dir_all(&directory).with_context(|| format!("{} cannot be created", directory.display()))?;
        Ok(tonic_prost_build::configure().emit_rerun_if_changed(false).bytes(".").out_dir(directory))
    };
    let api = protox::compile(API, [protos("proto")])?;
    let ours = || {
        let mut config = Config::new();
        // A `BTreeMap` has a fixed order, so equal records always have the same bytes.
        config.out_dir(root.join(OURS)).bytes(["."]).btree_map(["."]);
        // Written by hand in `packed.rs`.
        config.extern_path(".kent.v1.PackedIdentifiers", "crate::packed::PackedIdentifiers");
        config.extern_path(".google.rpc.Status", "::tonic_types::pb::Status");
        let tonic = tonic_prost_build::configure().codec_path("crate::codec::SizedCodec").service_generator();
        config.service_generator(Box::new(Services { tonic }));
        config
    };
    fs::create_dir_all(root.join(OURS))?;
    ours().compile_fds(protox::compile([RECORDS], [protos("proto")])?)?;
    // Reflection shows only the API: the records of the store are internal.
    fs::write(root.join(OURS).join("kent.v1.bin"), api.encode_to_vec())?;
    ours().compile_fds(api)?;
    let etcd = protox::compile(["etcd.proto"], [protos("crates/store")])?;
    out(ETCD)?.build_server(false).compile_fds(etcd)?;
    let ferroid = protox::compile(["ferroid.proto"], [protos("crates/bench")])?;
    out(FERROID)?.build_server(false).compile_fds(ferroid)?;
    Ok(())
}

/// Writes tonic's code for a service, and its methods by name.
struct Services {
    tonic: Box<dyn ServiceGenerator>,
}

impl ServiceGenerator for Services {
    fn generate(&mut self, service: Service, code: &mut String) {
        let by_name = methods::by_name(&service);
        self.tonic.generate(service, code);
        code.push_str(&by_name);
    }

    fn finalize(&mut self, code: &mut String) {
        self.tonic.finalize(code);
    }

    fn finalize_package(&mut self, package: &str, code: &mut String) {
        self.tonic.finalize_package(package, code);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The names and contents of the files in a directory.
    fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(directory).into_iter().flatten().map(|entry| entry.expect("readable"));
        let name = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        entries.map(|entry| (name(&entry), fs::read(entry.path()).expect("readable"))).collect()
    }

    #[test]
    fn ok_the_generated_code_is_up_to_date() {
        let made = tempfile::tempdir().expect("a directory");
        write(made.path()).expect("generated");
        for directory in [OURS, ETCD, FERROID] {
            let [expected, found] = [made.path(), crate::root()].map(|root| files(&root.join(directory)));
            assert!(
                !expected.is_empty() && found == expected,
                "{directory} is out of date: run `cargo xtask generate`"
            );
        }
    }
}
