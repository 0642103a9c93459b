//! The reflection service, which is built by its first call.

use futures_util::future::join_all;
use prost::Message;
use prost_types::FileDescriptorProto;
use tokio_stream::once;
use tonic_reflection::pb::{
    v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    },
    v1alpha,
};

use super::harness::{Daemon, data_dir};

/// Asks the current version of the service.
async fn ask(daemon: &Daemon, question: MessageRequest) -> MessageResponse {
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(question) };
    let mut client = ServerReflectionClient::new(daemon.channel());
    let mut answers = client.server_reflection_info(once(request)).await.expect("a stream").into_inner();
    answers.message().await.expect("no error").and_then(|answer| answer.message_response).expect("an answer")
}

#[tokio::test]
async fn ok_concurrent_first_calls_list_all_services() {
    let dir = data_dir();
    let daemon = Daemon::start(dir.path());
    for answer in join_all((0..8).map(|_| ask(&daemon, MessageRequest::ListServices(String::new())))).await {
        let MessageResponse::ListServicesResponse(listed) = answer else { panic!("{answer:?}") };
        let mut names: Vec<_> = listed.service.into_iter().map(|service| service.name).collect();
        names.sort();
        let own = ["Access", "Admin", "Allocator", "Codec", "Layouts", "Regions"].map(|name| format!("kent.v1.{name}"));
        let others = ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"].map(str::to_owned);
        assert_eq!(names, [&others[..], &own].concat());
    }
    let symbol = MessageRequest::FileContainingSymbol("kent.v1.Allocator".to_owned());
    let MessageResponse::FileDescriptorResponse(files) = ask(&daemon, symbol).await else { panic!("no file") };
    let file = FileDescriptorProto::decode(&*files.file_descriptor_proto[0]).expect("a descriptor");
    assert_eq!(file.name(), "kent/v1/allocator.proto");
}

#[tokio::test]
async fn ok_the_older_version_lists_services_too() {
    use v1alpha::{server_reflection_request::MessageRequest, server_reflection_response::MessageResponse};
    let dir = data_dir();
    let daemon = Daemon::start(dir.path());
    let message_request = Some(MessageRequest::ListServices(String::new()));
    let request = v1alpha::ServerReflectionRequest { host: String::new(), message_request };
    let mut client = v1alpha::server_reflection_client::ServerReflectionClient::new(daemon.channel());
    let mut answers = client.server_reflection_info(once(request)).await.expect("a stream").into_inner();
    let answer = answers.message().await.expect("no error").and_then(|answer| answer.message_response);
    let Some(MessageResponse::ListServicesResponse(listed)) = answer else { panic!("{answer:?}") };
    assert!(listed.service.iter().any(|service| service.name == "kent.v1.Allocator"), "{listed:?}");
}
