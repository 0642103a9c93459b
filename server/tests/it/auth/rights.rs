//! Rights belong to a region's number: renaming, splitting or delegating a region changes no rights, and deleting it
//! ends them.

use kent_proto::v1::{
    AddSubregionsRequest, ClassifyRequest, CreateRegionRequest, CreateSpaceRequest, DelegateRegionRequest,
    DeleteRegionRequest, DeleteSpaceRequest, EditResponse, Encoding, ExpandRegionRequest, GetRegionRequest,
    ListHistoryRequest, ListRegionsRequest, ListSpacesRequest, NewRegion, RaiseFloorsRequest, RaiseFloorsResponse,
    RenameRegionRequest, SealRegionRequest, UndoEditRequest, UpdateRegionRequest, WatchTableRequest, WhoAmIRequest,
    raise_floors_request::Floor, watch_table_response::Event,
};
use tonic::{Code, Response, Status};
use tonic_types::StatusExt;

use super::{Guarded, Holder, missing, refusal, region};
use crate::it::harness::{SPACE, data_dir};

type Edited = Result<Response<EditResponse>, Status>;

impl Guarded {
    async fn rename(&self, by: &Holder, from: &str, to: &str) -> Edited {
        let rename = RenameRegionRequest { name: region(from), region_id: to.to_owned(), ..Default::default() };
        self.daemon.regions().rename_region(by.send(rename)).await
    }

    async fn seal(&self, by: &Holder, name: &str) -> Edited {
        let seal = SealRegionRequest { name: region(name), ..Default::default() };
        self.daemon.regions().seal_region(by.send(seal)).await
    }

    async fn unseal(&self, by: &Holder, name: &str) -> Edited {
        let seal = SealRegionRequest { name: region(name), ..Default::default() };
        self.daemon.regions().unseal_region(by.send(seal)).await
    }

    async fn delete(&self, by: &Holder, name: &str) -> Edited {
        let delete = DeleteRegionRequest { name: region(name), ..Default::default() };
        self.daemon.regions().delete_region(by.send(delete)).await
    }

    async fn undo(&self, by: &Holder, name: &str) -> Edited {
        let undo = UndoEditRequest { name: name.to_owned(), ..Default::default() };
        self.daemon.regions().undo_edit(by.send(undo)).await
    }

    async fn subdivide(&self, by: &Holder, name: &str, subregion: &str, extension: &str) -> Edited {
        let new_regions = vec![NewRegion {
            region_id: subregion.to_owned(),
            extension: Some(extension.to_owned()),
            suffix_bits: Some(4),
            ..Default::default()
        }];
        let add = AddSubregionsRequest { name: region(name), by_bits: 1, new_regions, ..Default::default() };
        self.daemon.regions().add_subregions(by.send(add)).await
    }

    /// Raises floors of these sources, which are 0.
    async fn raise(&self, by: &Holder, sources: &[&str]) -> Result<Response<RaiseFloorsResponse>, Status> {
        let floor = |source: &&str| Floor { source: (*source).to_owned(), floor: "0".to_owned() };
        let raise = RaiseFloorsRequest { floors: sources.iter().map(floor).collect(), ..Default::default() };
        self.daemon.admin().raise_floors(by.send(raise)).await
    }

    async fn names(&self, by: &Holder) -> Vec<String> {
        let list = ListRegionsRequest { parent: SPACE.to_owned(), ..Default::default() };
        let listed = self.daemon.regions().list_regions(by.send(list)).await.expect("listed").into_inner();
        let name = |region: kent_proto::v1::Region| region.name.rsplit('/').next().expect("a name").to_owned();
        let mut names: Vec<_> = listed.regions.into_iter().map(name).collect();
        names.sort();
        names
    }
}

#[tokio::test]
async fn ok_packed_identifiers_and_leases_need_different_permissions() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    guarded.create(&guarded.admin, "orders").await.expect("created");
    let sources = [
        ("uuidv7", "uuidv7"),
        ("uid11-fullrand", "uid11-fullrand"),
        ("serial:GBP", "serial:GBP"),
        ("region:orders", "region:default/orders"),
    ];
    for (source, resource) in sources {
        let (allocate, lease) = (format!("allocate:{resource}"), format!("lease:{resource}"));
        let (packs, leases) = (guarded.token(&[&allocate]).await, guarded.token(&[&lease]).await);
        for (other, _) in sources {
            let (packed, leased) =
                (guarded.pack(&packs, other).await, guarded.draw(&leases, other, Encoding::Lease).await);
            match other == source {
                true => assert!(packed.is_ok() && leased.is_ok(), "{source}"),
                false => assert!(missing(packed).starts_with("allocate:") && missing(leased).starts_with("lease:")),
            }
        }
        assert_eq!(missing(guarded.draw(&packs, source, Encoding::Lease).await), lease);
        assert_eq!(missing(guarded.pack(&leases, source).await), allocate);
    }
}

#[tokio::test]
async fn ok_the_floor_of_a_region_needs_the_permission_to_edit_it_and_other_floors_to_operate() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    for name in ["orders", "other"] {
        guarded.create(&guarded.admin, name).await.expect("created");
    }
    let editor = guarded.token(&["edit:region:default/orders"]).await;
    let operator = guarded.token(&["operate:*"]).await;
    let both = guarded.token(&["edit:region:default/orders", "operate:*"]).await;
    guarded.raise(&editor, &["region:orders"]).await.expect("raised");
    guarded.raise(&operator, &["serial:GBP"]).await.expect("raised");
    guarded.raise(&both, &["serial:GBP", "region:orders"]).await.expect("raised");
    for (holder, sources, permission) in [
        (&editor, &["region:orders", "region:other"][..], "edit:region:default/other"),
        (&editor, &["region:orders", "region:nosuch"], "edit:region:default/nosuch"),
        (&editor, &["region:orders@nosuch"], "edit:region:nosuch/orders"),
        (&editor, &["region:orders", "serial:GBP"], "operate:*"),
        (&editor, &[], "operate:*"),
        (&operator, &["serial:GBP", "region:orders"], "edit:region:default/orders"),
        (&both, &["region:other"], "edit:region:default/other"),
    ] {
        assert_eq!(missing(guarded.raise(holder, sources).await), permission, "{sources:?}");
    }
}

#[tokio::test]
async fn ok_a_rename_changes_no_right() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let admin = &guarded.admin;
    for name in ["orders", "team-a-1", "other"] {
        guarded.create(admin, name).await.expect("created");
    }
    let exact = guarded.token(&["allocate:region:default/orders"]).await;
    let team = guarded.token(&["allocate:region:default/team-a-*"]).await;
    guarded.rename(admin, "orders", "old").await.expect("renamed");
    guarded.rename(admin, "team-a-1", "moved").await.expect("renamed");
    guarded.rename(admin, "other", "team-a-2").await.expect("renamed");
    guarded.create(admin, "orders").await.expect("created");
    // The rights are unchanged.
    guarded.pack(&exact, "region:old").await.expect("granted");
    guarded.pack(&team, "region:moved").await.expect("granted");
    // No rights were added.
    missing(guarded.pack(&exact, "region:orders").await);
    missing(guarded.pack(&team, "region:team-a-2").await);
    // The token shows the region's current name.
    let who = guarded.access().who_am_i(exact.send(WhoAmIRequest {})).await.expect("answered").into_inner();
    assert_eq!(who.permissions, ["allocate:region:default/old"]);
    // A deleted region's rights end with it: the undo creates a region with another number.
    guarded.create(admin, "brief").await.expect("created");
    let brief = guarded.token(&["allocate:region:default/brief", "read:region:default/brief"]).await;
    guarded.delete(admin, "brief").await.expect("deleted");
    missing(guarded.pack(&brief, "region:brief").await);
    guarded.undo(admin, SPACE).await.expect("undone");
    missing(guarded.pack(&brief, "region:brief").await);
    // A restart changes nothing.
    let Guarded { daemon, admin } = guarded;
    daemon.kill();
    let daemon = crate::it::harness::Daemon::spawn(&mut super::guarded(dir.path()));
    let guarded = Guarded { daemon, admin };
    guarded.pack(&exact, "region:old").await.expect("granted");
    guarded.pack(&team, "region:moved").await.expect("granted");
    missing(guarded.pack(&exact, "region:orders").await);
    missing(guarded.pack(&team, "region:team-a-2").await);
}

#[tokio::test]
async fn err_an_editor_edits_only_its_own_regions() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let admin = &guarded.admin;
    for name in ["orders", "team-b-1"] {
        guarded.create(admin, name).await.expect("created");
    }
    let team = guarded.token(&["edit:region:default/team-a-*"]).await;
    let exact = guarded.token(&["edit:region:default/orders"]).await;
    guarded.create(&team, "team-a-1").await.expect("created");
    guarded.seal(&team, "team-a-1").await.expect("sealed");
    guarded.unseal(&team, "team-a-1").await.expect("unsealed");
    for name in ["orders", "team-b-1", "team-a", "absent"] {
        missing(guarded.seal(&team, name).await);
        missing(guarded.delete(&team, name).await);
        missing(guarded.create(&team, name).await);
        missing(guarded.undo(&team, &region(name)).await);
    }
    missing(guarded.undo(&team, SPACE).await);
    // A caller cannot take a name that belongs to others, neither by a rename nor for a new region.
    missing(guarded.rename(&team, "team-a-1", "orders2").await);
    guarded.rename(&team, "team-a-1", "team-a-2").await.expect("renamed");
    missing(guarded.rename(&exact, "orders", "team-a-9").await);
    guarded.seal(&exact, "orders").await.expect("sealed");
    missing(guarded.create(&exact, "new").await);
    // The rights are also checked for the new subregions of a subdivided region.
    missing(guarded.subdivide(&team, "team-a-2", "fresh", "1").await);
    guarded.subdivide(&team, "team-a-2", "team-a-3", "1").await.expect("divided");
    missing(guarded.seal(&exact, "team-a-3").await);
    guarded.seal(&team, "team-a-3").await.expect("sealed");
    guarded.undo(&team, &region("team-a-3")).await.expect("undone");
    // A repeated request ID shows an edit's result only to callers who may make the edit.
    let by_admin = SealRegionRequest { name: region("team-b-1"), request_id: "once".to_owned(), ..Default::default() };
    guarded.daemon.regions().seal_region(admin.send(by_admin.clone())).await.expect("sealed");
    missing(guarded.daemon.regions().seal_region(team.send(by_admin)).await);
    // A dry run needs the same rights as the edit.
    let dry = DeleteRegionRequest { name: region("orders"), validate_only: true, ..Default::default() };
    missing(guarded.daemon.regions().delete_region(team.send(dry)).await);
    let attribute = UpdateRegionRequest { name: region("orders"), owner: Some("me".to_owned()), ..Default::default() };
    missing(guarded.daemon.regions().update_region(team.send(attribute)).await);
    let expand = ExpandRegionRequest { name: region("orders"), by_bits: 1, ..Default::default() };
    missing(guarded.daemon.regions().expand_region(team.send(expand)).await);
}

#[tokio::test]
async fn err_a_donor_is_not_split_by_an_editor_of_another_region() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let admin = &guarded.admin;
    let space = CreateSpaceRequest { space_id: "small".to_owned(), bits: 8, ..Default::default() };
    guarded.daemon.regions().create_space(admin.send(space)).await.expect("created");
    let new = |name: &str, suffix_bits: u32, expansion_bits: u32| CreateRegionRequest {
        parent: "spaces/small".to_owned(),
        region_id: name.to_owned(),
        suffix_bits: Some(suffix_bits),
        zone_bits: Some(expansion_bits),
        auto_split: true,
        ..CreateRegionRequest::default()
    };
    guarded.daemon.regions().create_region(admin.send(new("donor", 4, 4))).await.expect("created");
    let editor = guarded.token(&["edit:region:small/mine*"]).await;
    assert_eq!(
        missing(guarded.daemon.regions().create_region(editor.send(new("mine", 2, 0))).await),
        "edit:region:small/*"
    );
    guarded.daemon.regions().create_region(admin.send(new("mine", 2, 0))).await.expect("created from the donor");
}

#[tokio::test]
async fn ok_the_space_of_a_delegated_region_has_rights_of_its_own() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let admin = &guarded.admin;
    guarded.create(admin, "team").await.expect("created");
    let outer = guarded.token(&["admin:region:default/team", "admin:region:default/team*"]).await;
    let delegate = DelegateRegionRequest { name: region("team"), ..Default::default() };
    guarded.daemon.regions().delegate_region(outer.send(delegate)).await.expect("delegated");
    let inside = CreateRegionRequest {
        parent: "spaces/default/team".to_owned(),
        region_id: "team-x".to_owned(),
        suffix_bits: Some(8),
        ..CreateRegionRequest::default()
    };
    missing(guarded.daemon.regions().create_region(outer.send(inside.clone())).await);
    guarded.daemon.regions().create_region(admin.send(inside)).await.expect("created");
    missing(guarded.pack(&outer, "region:team-x@default/team").await);
    let inner = guarded.token(&["allocate:space:default/team", "edit:space:default/team"]).await;
    guarded.pack(&inner, "region:team-x@default/team").await.expect("granted");
    missing(guarded.seal(&inner, "team").await);
    // Renaming the delegated region renames the space. The rights stay the same.
    guarded.rename(admin, "team", "other").await.expect("renamed");
    guarded.create(admin, "team").await.expect("created");
    guarded.pack(&inner, "region:team-x@default/other").await.expect("granted");
    missing(guarded.pack(&inner, "region:team-x@default/team").await);
    // Ending the delegation also changes the outer region, so it needs a right to that region.
    let delete = DeleteRegionRequest { name: "spaces/default/other/regions/team-x".to_owned(), ..Default::default() };
    let outside = refusal(guarded.daemon.regions().delete_region(inner.send(delete)).await);
    assert_eq!(outside.0, Code::FailedPrecondition, "it is in use");
    let end = DeleteSpaceRequest { name: "spaces/default/other".to_owned(), validate_only: true };
    missing(guarded.daemon.regions().delete_space(inner.send(end)).await);
}

#[tokio::test]
async fn ok_readers_see_what_they_may_read() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let admin = &guarded.admin;
    for name in ["team-a-1", "team-b-1", "team-a-2", "team-b-2"] {
        guarded.create(admin, name).await.expect("created");
    }
    guarded.subdivide(admin, "team-a-1", "team-b-3", "1").await.expect("divided");
    let team = guarded.token(&["read:region:default/team-a-*"]).await;
    let all = guarded.token(&["read:space:default"]).await;
    assert_eq!(guarded.names(&team).await, ["team-a-1", "team-a-2"]);
    assert_eq!(guarded.names(&all).await.len(), 5);
    let mut regions = guarded.daemon.regions();
    // A list has a last page, even if the caller may see only a few of the regions.
    let (mut page_token, mut seen) = (String::new(), 0);
    loop {
        let list = ListRegionsRequest { parent: SPACE.to_owned(), page_size: 1, page_token, ..Default::default() };
        let page = regions.list_regions(team.send(list)).await.expect("listed").into_inner();
        seen += page.regions.len();
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, 2);
    for (name, readable) in [("team-a-1", true), ("team-b-1", false), ("team-b-3", false)] {
        let get = GetRegionRequest { name: region(name), ..GetRegionRequest::default() };
        assert_eq!(regions.get_region(team.send(get)).await.is_ok(), readable, "{name}");
        let history = ListHistoryRequest { parent: region(name), ..Default::default() };
        match regions.list_history(team.send(history)).await {
            Ok(history) => {
                let text = format!("{:?}", history.into_inner());
                assert!(readable && !text.contains("team-b"), "{text}");
            }
            Err(refused) => assert!(!readable && refused.code() == Code::PermissionDenied, "{refused}"),
        }
    }
    // Calls that show the whole table need a right to all of it.
    let watch = WatchTableRequest { parent: SPACE.to_owned(), after_revision: 0 };
    missing(regions.watch_table(team.send(watch.clone())).await.map(drop));
    // Only callers who may lease get the key of scrambled orders.
    let leases = guarded.token(&["read:space:default", "lease:space:default"]).await;
    for (reader, has_key) in [(&all, false), (&leases, true)] {
        let mut copy = regions.watch_table(reader.send(watch.clone())).await.expect("open").into_inner();
        let first = copy.message().await.expect("a snapshot").expect("a snapshot").event;
        let Some(Event::Snapshot(snapshot)) = first else { panic!("{first:?}") };
        assert_eq!(!snapshot.scramble_key.is_empty(), has_key);
        assert!(kent_proto::model::table_of(vec![snapshot]).is_ok());
    }
    let history = ListHistoryRequest { parent: SPACE.to_owned(), ..Default::default() };
    missing(regions.list_history(team.send(history.clone())).await);
    regions.list_history(all.send(history)).await.expect("listed");
    let past = ListRegionsRequest { parent: SPACE.to_owned(), at_revision: 1, ..Default::default() };
    missing(regions.list_regions(team.send(past)).await);
    let classify = ClassifyRequest { parent: SPACE.to_owned(), ..Default::default() };
    missing(regions.classify(team.send(classify)).await);
    let spaces = ListSpacesRequest::default();
    assert!(regions.list_spaces(team.send(spaces.clone())).await.expect("listed").into_inner().spaces.is_empty());
    assert_eq!(regions.list_spaces(all.send(spaces)).await.expect("listed").into_inner().spaces.len(), 1);
}

#[tokio::test]
async fn err_no_answer_names_a_region_around_that_the_caller_may_not_see() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let admin = &guarded.admin;
    guarded.create(admin, "secret").await.expect("created");
    guarded.subdivide(admin, "secret", "team-a-1", "1").await.expect("divided");
    let mut regions = guarded.daemon.regions();
    let delegate = DelegateRegionRequest { name: region("team-a-1"), ..Default::default() };
    regions.delegate_region(admin.send(delegate)).await.expect("delegated");
    let (parent, region_id) = (format!("{SPACE}/team-a-1"), "inner".to_owned());
    let create = CreateRegionRequest { parent: parent.clone(), region_id, suffix_bits: Some(1), ..Default::default() };
    regions.create_region(admin.send(create)).await.expect("created");
    guarded.seal(admin, "secret").await.expect("sealed");
    let team = guarded
        .token(&["edit:region:default/team-a-*", "read:region:default/team-a-*", "read:space:default/team-a-1"])
        .await;
    for (caller, expected) in [(&team, "-".to_owned()), (admin, region("secret"))] {
        let mut answers = Vec::new();
        let get = GetRegionRequest { name: region("team-a-1"), ..GetRegionRequest::default() };
        let got = regions.get_region(caller.send(get)).await.expect("there").into_inner();
        answers.push((format!("{got:?}"), got.sealed_by));
        for parent in [SPACE.to_owned(), parent.clone()] {
            let list = ListRegionsRequest { parent, ..Default::default() };
            let mut listed = regions.list_regions(caller.send(list)).await.expect("listed").into_inner().regions;
            let last = listed.pop().expect("a region");
            answers.push((format!("{last:?}"), last.sealed_by));
        }
        let list = ListSpacesRequest::default();
        let spaces = regions.list_spaces(caller.send(list)).await.expect("listed").into_inner().spaces;
        let inner = spaces.into_iter().find(|space| space.name == parent).expect("listed");
        answers.push((format!("{inner:?}"), inner.sealed_by));
        let owner = Some(expected.clone());
        let update = UpdateRegionRequest { name: region("team-a-1"), owner, ..Default::default() };
        let edited = regions.update_region(caller.send(update)).await.expect("edited").into_inner();
        answers.push((format!("{edited:?}"), edited.region.expect("edited").sealed_by));
        for (text, sealed_by) in answers {
            assert_eq!(sealed_by, expected, "{text}");
            assert_eq!(text.contains("secret"), expected != "-", "{text}");
        }
    }
}

#[tokio::test]
async fn err_a_refused_edit_names_no_region_that_the_caller_may_not_see() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let admin = &guarded.admin;
    let at = |name: &str, prefix: &str| CreateRegionRequest {
        parent: SPACE.to_owned(),
        region_id: name.to_owned(),
        suffix_bits: Some(20),
        prefix: Some(prefix.to_owned()),
        ..CreateRegionRequest::default()
    };
    for (name, prefix) in [("secret", "00"), ("team-a-1", "01")] {
        guarded.daemon.regions().create_region(admin.send(at(name, prefix))).await.expect("created");
    }
    let team = guarded.token(&["edit:region:default/team-a-*"]).await;
    for (prefix, named) in [("000", "(another region)"), ("010", "team-a-1")] {
        let refused = guarded.daemon.regions().create_region(team.send(at("team-a-2", prefix))).await;
        let refused = refused.expect_err("it overlaps");
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains(named) && !format!("{refused:?}").contains("secret"), "{refused:?}");
    }
    for donor in ["secret", "absent"] {
        let split = CreateRegionRequest { split_donor: donor.to_owned(), prefix: None, ..at("team-a-2", "") };
        let refused = missing(guarded.daemon.regions().create_region(team.send(split)).await);
        assert_eq!(refused, format!("edit:region:default/{donor}"));
    }
}

#[tokio::test]
async fn err_a_refused_grant_names_no_region_that_the_caller_may_not_see() {
    let dir = data_dir();
    let guarded = Guarded::start(dir.path()).await;
    let admin = &guarded.admin;
    for outer in ["outer", "orders"] {
        guarded.create(admin, outer).await.expect("created");
    }
    guarded.subdivide(admin, "outer", "team", "1").await.expect("divided");
    let mut regions = guarded.daemon.regions();
    let half = |(name, extension): (&str, &str)| NewRegion {
        region_id: name.to_owned(),
        extension: Some(extension.to_owned()),
        suffix_bits: (extension == "1").then_some(4),
        ..Default::default()
    };
    let new_regions = [("heir", "0"), ("rest", "1")].map(half).to_vec();
    let close = AddSubregionsRequest { name: region("orders"), by_bits: 1, new_regions, ..Default::default() };
    regions.add_subregions(admin.send(close)).await.expect("closed");
    let delegate = DelegateRegionRequest { name: region("team"), ..Default::default() };
    regions.delegate_region(admin.send(delegate)).await.expect("delegated");
    let (parent, region_id) = (format!("{SPACE}/team"), "inner".to_owned());
    let create = CreateRegionRequest { parent, region_id, suffix_bits: Some(1), ..Default::default() };
    regions.create_region(admin.send(create)).await.expect("created");
    guarded.seal(admin, "outer").await.expect("sealed");
    let mut wrong = Vec::new();
    for (source, requested, reason, fact, other, told, concealed) in [
        (
            "region:inner@default/team",
            "default/team/inner",
            "SEALED",
            "sealed_by",
            "outer",
            &*region("outer"),
            Some("-"),
        ),
        ("region:orders", "default/orders", "CLOSED", "heir", "heir", "region:heir", None),
    ] {
        let own = [format!("lease:region:{requested}"), format!("allocate:region:{requested}")];
        let more = ["read", "edit", "allocate", "lease"].map(|action| vec![format!("{action}:region:default/{other}")]);
        for more in [Vec::new()].into_iter().chain(more) {
            let held: Vec<_> = own.iter().chain(&more).map(String::as_str).collect();
            let caller = guarded.token(&held).await;
            for encoding in [Encoding::Lease, Encoding::Packed] {
                let refused = guarded.draw(&caller, source, encoding).await.expect_err("nothing is granted");
                let info = refused.get_details_error_info().expect("a reason");
                assert_eq!(info.reason, reason, "{refused}");
                let (is_named, fact) = (!more.is_empty(), info.metadata.get(fact).map(String::as_str));
                let is_in_message = refused.message().contains(&format!("{other:?}"));
                if (fact, is_in_message) != (if is_named { Some(told) } else { concealed }, is_named) {
                    wrong.push(format!("{more:?}: {refused}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
