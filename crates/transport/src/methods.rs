//! The names of all methods of the gRPC port.
//!
//! The audit log names the method of a refused call only if the method is in this list, so that callers cannot fill the
//! log with invented names.

use std::{collections::BTreeSet, sync::LazyLock};

use prost::Message;
use prost_types::FileDescriptorSet;

/// The methods, as `SERVICE/METHOD`. The names live as long as the process.
static METHODS: LazyLock<BTreeSet<&'static str>> = LazyLock::new(|| {
    let sets = [
        kent_proto::DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    // OK because the generated descriptors are well-formed, as the test below shows.
    let files = sets.into_iter().flat_map(|set| FileDescriptorSet::decode(set).unwrap_or_default().file);
    let names = files.flat_map(|file| {
        let names = |service: &prost_types::ServiceDescriptorProto| -> Vec<String> {
            let (package, name) = (file.package(), service.name());
            service.method.iter().map(|method| format!("{package}.{name}/{}", method.name())).collect()
        };
        file.service.iter().flat_map(names).collect::<Vec<_>>()
    });
    names.map(|name| &*name.leak()).collect()
});

/// The name of the method with this path; empty if no method has it.
pub(crate) fn known(path: &str) -> &'static str {
    path.strip_prefix('/').and_then(|name| METHODS.get(name)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_methods_are_known_by_their_whole_name() {
        for (path, expected) in [
            ("/kent.v1.Regions/CreateRegion", "kent.v1.Regions/CreateRegion"),
            ("/kent.v1.Allocator/AllocateStream", "kent.v1.Allocator/AllocateStream"),
            ("/grpc.health.v1.Health/Check", "grpc.health.v1.Health/Check"),
            (
                "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            ),
            ("/kent.v1.Regions/createregion", ""),
            ("kent.v1.Regions/CreateRegion", ""),
            ("/kent.v1.Regions/CreateRegion/", ""),
            ("/metrics", ""),
            ("", ""),
        ] {
            assert_eq!(known(path), expected, "{path:?}");
        }
    }
}
