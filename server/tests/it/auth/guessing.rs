//! Callers cannot guess names: every call refuses a caller without rights in the same way, whether the name exists or
//! not.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use kent_proto::{codec::BytesCodec, v1::CreateSpaceRequest};
use prost::{
    Message,
    encoding::{self, WireType},
};
use prost_types::{
    DescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};
use tonic::{Request, Status, client::Grpc, codegen::http::uri::PathAndQuery};
use tonic_types::StatusExt;

use super::{Guarded, Holder};
use crate::it::harness::data_dir;

/// Returns all methods, with the descriptors of their request messages.
fn methods() -> Vec<(String, DescriptorProto)> {
    let set = FileDescriptorSet::decode(kent_proto::DESCRIPTORS).expect("a descriptor set");
    let messages: Vec<_> = set.file.iter().flat_map(|file| &file.message_type).collect();
    let request = |name: &str| {
        let own = name.rsplit('.').next().unwrap_or_default();
        (*messages.iter().find(|message| message.name() == own).expect("a request")).clone()
    };
    let mut methods = Vec::new();
    for file in &set.file {
        for service in &file.service {
            for method in &service.method {
                let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                methods.push((path, request(method.input_type())));
            }
        }
    }
    methods
}

/// A request in which every string is `text` and every number is 1.
fn filled(request: &DescriptorProto, text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in &request.field {
        let number = u32::try_from(field.number()).expect("a field");
        match field.r#type() {
            Type::String => encoding::string::encode(number, &text.to_owned(), &mut bytes),
            Type::Uint32 | Type::Uint64 if field.label() != Label::Repeated => {
                encoding::encode_key(number, WireType::Varint, &mut bytes);
                encoding::encode_varint(1, &mut bytes);
            }
            _ => {}
        }
    }
    bytes
}

async fn call(guarded: &Guarded, by: &Holder, method: &str, message: Vec<u8>) -> Result<Bytes, Status> {
    let mut grpc = Grpc::new(guarded.daemon.channel());
    grpc.ready().await.expect("connected");
    let mut request = Request::new(tokio_stream::once(Bytes::from(message)));
    *request.metadata_mut() = by.send(()).metadata().clone();
    let path: PathAndQuery = method.parse().expect("a path");
    let answers = grpc.streaming(request, path, BytesCodec).await?;
    Ok(answers.into_inner().message().await?.unwrap_or_default())
}

/// Everything that a caller sees of an answer, with a fixed text in place of the name.
fn seen(answer: Result<Bytes, Status>, name: &str) -> String {
    match answer {
        Ok(bytes) => {
            // The facts of a refusal in a stream come in any order, so the characters are sorted before the comparison.
            let mut letters: Vec<char> = String::from_utf8_lossy(&bytes).replace(name, "NAME").chars().collect();
            letters.sort_unstable();
            format!("{letters:?}")
        }
        Err(status) => {
            let mut details = status.get_error_details();
            let facts: Option<BTreeMap<_, _>> =
                details.error_info().map(|info| info.metadata.clone().into_iter().collect());
            let reason = details.error_info().map(|info| info.reason.clone());
            details.set_error_info("", "", HashMap::<String, String>::new());
            format!("{:?} {} {reason:?} {facts:?} {details:?}", status.code(), status.message()).replace(name, "NAME")
        }
    }
}

#[tokio::test]
async fn err_no_call_tells_whether_a_name_exists() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    // Create a region, a space and a role of the same name, and a token.
    guarded.create(&guarded.admin, "secret").await.expect("created");
    let space = CreateSpaceRequest { space_id: "secret".to_owned(), bits: 32, ..CreateSpaceRequest::default() };
    guarded.daemon.regions().create_space(guarded.admin.send(space)).await.expect("created");
    guarded.role("secret", &["operate:*"], &[]).await;
    let other = guarded.token(&["operate:*"]).await;
    let strange = guarded.token(&["allocate:uuidv7"]).await;
    let forms = [
        "NAME",
        "spaces/NAME",
        "spaces/default/regions/NAME",
        "spaces/NAME/regions/NAME",
        "region:NAME",
        "region:NAME/NAME",
    ];
    let cases = forms.iter().map(|form| (*form, "secret", "absent"));
    let cases: Vec<_> = cases.chain([("NAME", &*other.id, "0123456789ab")]).collect();
    let (mut asked, mut differing) = (0, Vec::new());
    for (method, request) in methods() {
        for (form, present, absent) in &cases {
            let mut answers = Vec::new();
            for name in [present, absent] {
                let message = filled(&request, &form.replace("NAME", name));
                answers.push(seen(call(&guarded, &strange, &method, message).await, name));
            }
            asked += usize::from(answers[0].starts_with("PermissionDenied"));
            if answers[0] != answers[1] {
                differing.push((method.clone(), *form, answers));
            }
        }
    }
    assert!(differing.is_empty(), "{differing:#?}");
    // Most requests are valid enough to reach the permission check.
    assert!(asked > 40, "{asked}");
}

/// A record of a request ID belongs to one caller
/// ([`err_the_id_of_anothers_request_gets_neither_its_result_nor_an_edit`] and
/// `err_a_request_id_belongs_to_the_caller_who_used_it_first`). Changes to tokens, roles and budgets keep no such
/// records, so a caller can neither learn a secret by repeating another caller's request, nor prevent a revocation by
/// using the revocation's request ID first.
#[test]
fn ok_only_grants_and_edits_have_request_ids() {
    let has_id = |request: &DescriptorProto| request.field.iter().any(|field| field.name() == "request_id");
    let found: Vec<_> = methods().into_iter().filter(|(_, request)| has_id(request)).map(|(path, _)| path).collect();
    let is_known = |path: &String| path.starts_with("/kent.v1.Allocator/") || path.starts_with("/kent.v1.Regions/");
    assert!(found.len() > 10 && found.iter().all(is_known), "{found:?}");
}

#[tokio::test]
async fn err_the_id_of_anothers_request_gets_neither_its_result_nor_an_edit() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let new = || kent_proto::v1::CreateRegionRequest { request_id: "r1".to_owned(), ..super::create("orders") };
    guarded.daemon.regions().create_region(guarded.admin.send(new())).await.expect("created");
    let again = guarded.daemon.regions().create_region(guarded.admin.send(new())).await.expect("answered again");
    assert_eq!(again.into_inner().revision, 1);
    let stranger = guarded.token(&["edit:region:default/team-*", "read:region:default/team-*"]).await;
    // The stranger repeats the edit, and then uses the edit's request ID for a different edit that it may make.
    let repeated = guarded.daemon.regions().create_region(stranger.send(new())).await;
    assert_eq!(super::missing(repeated), "edit:region:default/orders*");
    let own = kent_proto::v1::CreateRegionRequest { request_id: "r1".to_owned(), ..super::create("team-a") };
    let refused = guarded.daemon.regions().create_region(stranger.send(own)).await.expect_err("refused");
    assert!(!format!("{refused:?}").contains("orders"), "the answer reveals another caller's edit: {refused}");
    let list =
        kent_proto::v1::ListHistoryRequest { parent: crate::it::harness::SPACE.to_owned(), ..Default::default() };
    let history = guarded.daemon.regions().list_history(guarded.admin.send(list)).await.expect("listed").into_inner();
    assert_eq!(history.entries.len(), 1);
}
