//! The unary methods of the API, and the descriptors of their messages.

use std::collections::HashMap;

use axum::http::uri::PathAndQuery;
use prost::Message;
use prost_reflect::{DescriptorError, DescriptorPool, MethodDescriptor};
use prost_types::FileDescriptorSet;

use super::wide::has_wide;

/// All methods of the API.
#[derive(Debug, Default)]
pub(super) struct Methods {
    by_path: HashMap<String, Method>,
    pool: DescriptorPool,
}

/// A method.
#[derive(Debug)]
pub(super) enum Method {
    Unary(Box<Unary>),
    /// A method with a stream of requests or answers.
    Streaming,
}

/// A method with one request and one answer.
#[derive(Debug)]
pub(super) struct Unary {
    pub(super) path: PathAndQuery,
    pub(super) descriptor: MethodDescriptor,
    /// Whether the request and the answer may contain 128-bit numbers.
    pub(super) has_wide: (bool, bool),
}

impl Methods {
    /// The methods of package `kent.v1`.
    ///
    /// # Errors
    ///
    /// If the descriptors are not valid.
    pub(super) fn of_api() -> Result<Self, DescriptorError> {
        let mut pool = DescriptorPool::decode(kent_proto::DESCRIPTORS)?;
        // Add the messages of error details, except google.rpc.Status, because the API has its own copy of that
        // message. Decoding them succeeds, because tonic-types encoded them.
        let details = FileDescriptorSet::decode(tonic_types::pb::FILE_DESCRIPTOR_SET).unwrap_or_default().file;
        pool.add_file_descriptor_protos(details.into_iter().filter(|file| !file.name().ends_with("status.proto")))?;
        let mut by_path = HashMap::new();
        for service in pool.services() {
            for descriptor in service.methods() {
                let path = format!("/{}/{}", service.full_name(), descriptor.name());
                let method = match (descriptor.is_client_streaming() || descriptor.is_server_streaming(), path.parse())
                {
                    (false, Ok(path)) => {
                        let has_wide = (has_wide(&descriptor.input()), has_wide(&descriptor.output()));
                        Method::Unary(Box::new(Unary { path, descriptor, has_wide }))
                    }
                    _ => Method::Streaming,
                };
                by_path.insert(path, method);
            }
        }
        Ok(Self { by_path, pool })
    }

    /// The method at a path such as `/kent.v1.Allocator/Allocate`.
    pub(super) fn get(&self, path: &str) -> Option<&Method> {
        self.by_path.get(path)
    }

    /// The descriptors, including those of error details.
    pub(super) fn pool(&self) -> &DescriptorPool {
        &self.pool
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_each_method_is_known() {
        let methods = Methods::of_api().expect("valid descriptors");
        assert!(matches!(methods.get("/kent.v1.Allocator/Allocate"), Some(Method::Unary(_))));
        assert!(matches!(methods.get("/kent.v1.Regions/WatchTable"), Some(Method::Streaming)));
        assert!(methods.get("/kent.v1.Allocator/NoSuchMethod").is_none());
        assert!(methods.pool().get_message_by_name("google.rpc.ErrorInfo").is_some());
        let Some(Method::Unary(classify)) = methods.get("/kent.v1.Regions/Classify") else { panic!("a method") };
        assert_eq!(classify.has_wide, (true, true));
    }
}
