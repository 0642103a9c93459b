//! How operators correct mistakes: edits that change nothing, deletions and undo.

use kent_proto::v1::{
    AutoExpand, CreateRegionRequest, DeleteRegionRequest, Encoding, FieldMask, GetRegionRequest, Policy,
    SealRegionRequest, UndoEditRequest, UpdateRegionRequest,
};
use serde_json::{Value, json};
use tonic::Code;
use tonic_types::StatusExt;

use super::{
    harness::{Daemon, create, data_dir, name, request},
    operator::Operator,
};

#[test]
fn ok_an_unused_region_is_deleted_and_its_name_and_prefix_are_free() {
    let operator = Operator::new();
    let made = operator.json("region create ordrs --suffix 40");
    let shown = operator.kent("region delete ordrs --dry-run");
    assert!(shown.contains("-  ordrs") && shown.contains("nothing was changed"), "{shown}");
    let deleted = operator.json("region delete ordrs --reason typo");
    assert_eq!((&deleted["changes"][0]["after"], &deleted["region"]["name"]), (&Value::Null, &json!("ordrs")));
    operator.refused("alloc region:ordrs", "NO_SUCH_REGION");
    operator.refused("region show ordrs", "NO_SUCH_REGION");
    let again = operator.json("region create ordrs --suffix 40");
    assert_eq!(again["region"]["prefix"], made["region"]["prefix"]);
    assert_eq!(made["region"]["number"].as_u64().map(|number| number + 1), again["region"]["number"].as_u64());
    let history = operator.kent("region history");
    assert!(history.contains("delete by") && history.contains(": typo\n  - ordrs"), "{history}");
    // An earlier revision of the table still contains the region.
    assert!(operator.kent("table export --at 1").contains("\"ordrs\""));
    operator.kent("alloc region:ordrs");
    let refused = operator.refused("region delete ordrs", "REGION_POPULATED");
    assert!(refused.contains("kent region seal ordrs --space default"), "{refused}");
}

#[test]
fn err_regions_that_may_be_in_use_or_are_not_empty_are_not_deleted() {
    let operator = Operator::new();
    operator.kent("region create legacy --suffix 20 --next 100");
    operator.refused("region delete legacy", "REGION_POPULATED");
    operator.kent("region create staff --suffix 20 --order external");
    let refused = operator.refused("region delete staff", "USE_UNKNOWN");
    assert!(refused.contains("kent region delete staff --space default --unused"), "{refused}");
    for words in ["region delegate staff", "region shrink staff --by 1"] {
        let refused = operator.refused(words, "USE_UNKNOWN");
        assert!(refused.contains("kent region delete staff --space default --unused"), "{words}: {refused}");
    }
    operator.kent("region delete staff --unused");
    operator.kent("region create d --suffix 10");
    let refused = operator.refused("region split d --by 2 --new a:9:11 --new b:9:11", "PREFIX_CONFLICT");
    assert!(refused.contains("\"a\" and \"b\" both use the extension 11"), "{refused}");
    operator.kent("region subdivide d --by 1 --new old::0 --new new:10:1");
    operator.refused("region delete d", "HAS_SUBREGIONS");
    operator.refused("region delete old", "IS_HEIR");
    // Delete both subregions, which restores the region's original state.
    operator.kent("region delete new");
    operator.kent("region delete old");
    assert_eq!(operator.json("region show d")["kind"], json!("open"));
    operator.kent("alloc region:d");
}

#[test]
fn ok_the_default_bits_of_a_subregion_are_the_next_that_work() {
    let operator = Operator::new();
    operator.kent("region create d --suffix 10");
    let answer = operator.kent("region subdivide d --by 1 --new eu:9");
    assert!(answer.ends_with("chosen BITS: eu 1\n"), "{answer}");
    let answer = operator.kent("region subdivide d --by 1 --new rest:11");
    assert!(answer.ends_with("chosen BITS: rest 0\n"), "{answer}");
    assert_eq!(operator.json("region show d")["kind"], json!("closed"));
}

#[test]
fn ok_an_edit_that_changes_nothing_makes_no_revision_and_says_so() {
    let operator = Operator::new();
    operator.kent("region create r --suffix 20 --next 100");
    for words in [
        "region unseal r",
        "region rename r r",
        "region set r --owner=",
        "region set r --next 100",
        "region set r --no-policy",
        "region set r --label team=",
    ] {
        assert_eq!(operator.kent(words), "nothing changed: the edit was already in effect; revision 1\n", "{words}");
        assert_eq!(operator.json(words)["unchanged"], json!(true), "{words}");
    }
    let refused = operator.refused("region set r --next 7", "NEXT_TOO_LOW");
    assert!(refused.contains("is already 100, which is above 7") && refused.contains("nothing changed"), "{refused}");
    assert!(operator.kent("region set r --next 101").contains("revision 1 → 2"));
    assert!(operator.kent("region seal r").contains("revision 2 → 3"));
    assert_eq!(operator.kent("region seal r"), "nothing changed: the edit was already in effect; revision 3\n");
    assert!(!operator.kent("region history").contains("revision 4"));
}

#[test]
fn ok_the_retry_of_a_number_that_was_in_effect_succeeds_when_the_counter_has_moved_on() {
    let operator = Operator::new();
    operator.kent("region create r --suffix 20 --next 100");
    let unchanged = "nothing changed: the edit was already in effect; revision 1\n";
    assert_eq!(operator.kent("region set r --next 100 --request-id once"), unchanged);
    operator.kent("alloc region:r -n 7");
    assert_eq!(operator.kent("region set r --next 100 --request-id once"), unchanged);
    operator.refused("region set r --next 100", "NEXT_TOO_LOW");
    assert_eq!(operator.kent("region set r --next 107"), unchanged);
}

/// The retry of an edit that changed nothing is answered in the same way. It is refused once the edit would change
/// something, because neither making the edit nor calling it made would be right.
#[tokio::test]
async fn ok_and_err_the_retry_of_an_edit_that_changed_nothing() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    regions.create_region(create("r")).await.expect("created");
    let unseal = |id: &str| SealRegionRequest { name: name("r"), request_id: id.to_owned(), ..Default::default() };
    let first = regions.unseal_region(unseal("once")).await.expect("nothing to do").into_inner();
    assert_eq!((first.base_revision, first.revision, first.changes.len()), (1, 1, 0));
    assert_eq!(first.region.map(|region| region.name), Some(name("r")));
    daemon.kill();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    let again = regions.unseal_region(unseal("once")).await.expect("known").into_inner();
    assert_eq!((again.base_revision, again.revision), (1, 1));
    regions.seal_region(unseal("seal")).await.expect("sealed");
    let late = regions.unseal_region(unseal("once")).await.expect_err("sealed meanwhile");
    assert_eq!(late.code(), Code::InvalidArgument, "{late}");
    let get = || GetRegionRequest { name: name("r"), ..GetRegionRequest::default() };
    assert!(regions.get_region(get()).await.expect("there").into_inner().sealed, "the retry must not unseal it");
    let other = regions.seal_region(unseal("once")).await.expect_err("another edit");
    assert_eq!(other.code(), Code::InvalidArgument, "{other}");
    regions.unseal_region(unseal("twice")).await.expect("unsealed");
    assert!(!regions.get_region(get()).await.expect("there").into_inner().sealed);
}

#[test]
fn ok_a_policy_changes_one_thing_at_a_time() {
    let operator = Operator::new();
    operator.kent("region create r --suffix 20");
    operator.kent("region set r --auto-expand 80:2:50 --cap 1000");
    operator.kent("region set r --chunk 1:8");
    let policy = |expected: Value| assert_eq!(operator.json("region show r")["policy"], expected);
    let auto_expand = json!({"at_percent": 80, "by_bits": 2, "max_suffix_bits": 50});
    let bounds = |min: &str, max: &str, cap: Value, auto_expand: &Value, strict: bool| json!({"auto_expand": auto_expand, "cap": cap, "min_chunk": min, "max_chunk": max, "strict": strict, "stride": null});
    policy(bounds("1", "8", json!("1000"), &auto_expand, false));
    operator.refused("region set r --strict", "BAD_INPUT");
    operator.kent("region set r --strict --no-chunk");
    policy(bounds("0", "0", json!("1000"), &auto_expand, true));
    operator.kent("region set r --no-cap");
    policy(bounds("0", "0", Value::Null, &auto_expand, true));
    operator.kent("region set r --no-strict --no-auto-expand");
    policy(Value::Null);
    let refused = operator.refused("region set r --auto-expand 80:2:10", "BAD_INPUT");
    assert!(
        refused.contains("already has a suffix of 20 bits") && refused.contains("a maximum of 21 to 28 bits"),
        "{refused}"
    );
}

#[tokio::test]
async fn ok_a_policy_mask_names_the_parts_to_change() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    regions.create_region(create("r")).await.expect("created");
    let mut update = async |policy: Option<Policy>, paths: &[&str]| {
        let policy_mask = Some(FieldMask { paths: paths.iter().map(|path| (*path).to_owned()).collect() });
        let update = UpdateRegionRequest { name: name("r"), policy, policy_mask, ..Default::default() };
        let made = regions.update_region(update).await?.into_inner();
        Ok::<_, tonic::Status>(made.region.and_then(|region| region.policy))
    };
    let cap = |cap: &str| Policy { cap: cap.to_owned(), ..Policy::default() };
    let chunk = Policy { min_chunk: 1, max_chunk: 8, ..Policy::default() };
    update(Some(cap("9")), &[]).await.expect("set");
    let both = update(Some(chunk.clone()), &["max_chunk"]).await.expect("set").expect("a policy");
    assert_eq!((both.cap.as_str(), both.max_chunk), ("9", 8));
    let whole = update(Some(chunk.clone()), &["*"]).await.expect("replaced");
    assert_eq!(whole, Some(chunk));
    assert_eq!(update(None, &["min_chunk"]).await.expect("cleared"), None);
    let refused = update(None, &["capp"]).await.expect_err("no such part");
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("capp") && refused.message().contains("auto_expand"), "{refused}");
}

#[test]
fn ok_the_history_shows_every_attribute_before_and_after() {
    let operator = Operator::new();
    operator.kent("region create r --suffix 20");
    operator.kent("region set r --owner shop --label team=a --cap 9");
    operator.kent("region set r --owner web --label team= --no-cap");
    operator.kent("region set r --next 7");
    let history = operator.kent("region history r");
    for expected in [
        "    -  cap: 9\n    -  owner: shop\n    -  label: team=a\n    +  owner: web\n",
        "    +  cap: 9\n    +  owner: shop\n    +  label: team=a\n",
        "    -  counted as issued: 0\n    +  counted as issued: 7\n",
    ] {
        assert!(history.contains(expected), "{history}");
    }
    assert_eq!(operator.json("region history r -n 1")["declared"], json!("7"));
}

#[test]
fn ok_the_last_edit_is_undone_or_the_reason_is_given() {
    let operator = Operator::new();
    let refused = operator.refused("region undo", "NOTHING_TO_UNDO");
    assert!(refused.contains("has not been edited"), "{refused}");
    operator.kent("region create r --suffix 8");
    let before = operator.json("region show r");
    // This daemon's own chunk is returned, so it does not prevent the undo.
    operator.kent("alloc region:r -n 3");
    for (words, undone) in [
        ("region expand r --by 2", "shrink"),
        ("region set r --owner ops --label a=b --cap 5", "update"),
        ("region rename r s", "rename"),
        ("region seal r", "unseal"),
        ("region subdivide r --by 1 --new sub:4:1", "revert"),
        ("region subdivide r --by 1 --new sub:4:1 --new zero::0", "revert"),
        ("region subdivide r --by 2 --new zero:4:00 --abstract", "revert"),
        ("region split r --by 1", "revert"),
        ("region split r --by 2 --new u:4 --new v:2", "revert"),
        ("region create t --suffix 4", "delete"),
    ] {
        operator.kent(words);
        let shown = operator.kent("region undo --dry-run");
        assert!(shown.contains("nothing was changed"), "{words}: {shown}");
        operator.kent("region undo");
        let entry = operator.json("region history -n 1");
        assert_eq!(entry["operation"], json!(undone), "{words}");
        assert_eq!(entry["undoes"].as_u64().map(|revision| revision + 1), entry["revision"].as_u64());
        let after = operator.json("region show r");
        for fact in
            ["name", "number", "prefix", "zone_bits", "suffix_bits", "kind", "policy", "owner", "labels", "sealed"]
        {
            assert_eq!(after[fact], before[fact], "{words}: {fact}");
        }
    }
    assert_eq!(
        operator.kent("alloc region:r").trim().parse::<u64>().expect("a number") & 0xff,
        3,
        "the counter continues"
    );
    // Undo an undo, and undo the last edit of one region.
    operator.kent("region create t --suffix 4");
    operator.kent("region seal r");
    operator.kent("region undo t");
    operator.kent("region undo r");
    operator.kent("region undo r");
    assert_eq!(operator.json("region show r")["sealed"], json!(true));
    operator.kent("region undo r");
    operator.kent("region set r --next 200");
    let refused = operator.refused("region undo", "NOT_UNDONE");
    assert!(refused.contains("a counter never goes back"), "{refused}");
    operator.refused("region undo nope", "NO_SUCH_REGION");
}

#[test]
fn ok_a_deleted_region_comes_back_with_all_its_attributes() {
    let operator = Operator::new();
    operator.kent("region create r --suffix 8 --zone 6");
    operator.kent("region create u --suffix 4 --order scrambled --pace 7");
    operator.kent("region set u --auto-expand 80:2:6 --cap 9 --chunk 1:8 --owner shop --label team=a");
    operator.kent("region seal u");
    operator.kent("region subdivide r --by 2 --new a:4:01 --new b:4:10");
    operator.kent("region set b --strict --description x");
    for region in ["u", "b", "a"] {
        let before = operator.json(&format!("region show {region}"));
        operator.kent(&format!("region delete {region}"));
        // A later edit of another region does not matter.
        operator.kent("region create other --suffix 2");
        operator.kent("region delete other");
        operator.kent(&format!("region undo {region}"));
        let after = operator.json(&format!("region show {region}"));
        assert_ne!(after["number"], before["number"]);
        for fact in
            ["name", "prefix", "zone_bits", "suffix_bits", "kind", "parent", "policy", "owner", "labels", "sealed"]
                .into_iter()
                .chain(["description", "order", "pace"])
        {
            assert_eq!(after[fact], before[fact], "{region}: {fact}");
        }
    }
    operator.kent("region unseal u");
    operator.kent("alloc region:u");
    operator.kent("alloc region:b");
}

/// The commands in a message that recreate a region.
fn recreation(refused: &str) -> Vec<&str> {
    let commands = refused.split(": kent ").nth(1).and_then(|rest| rest.split(" (").next()).expect("commands");
    commands.split(" && ").map(|command| command.strip_prefix("kent ").unwrap_or(command)).collect()
}

#[test]
fn err_an_undo_that_is_refused_says_why_and_what_to_do() {
    let operator = Operator::new();
    operator.kent("space create parts --bits 16");
    let refused = |words: &str| operator.refused(&format!("region undo {words} --space parts"), "NOT_UNDONE");
    let kent = |words: &str| operator.kent(&format!("{words} --space parts"));
    kent("region create r --prefix 00 --suffix 8");
    kent("region split r --by 1 --new u:4");
    kent("alloc region:u");
    let message = refused("");
    assert!(
        message.contains("issued or reserved in region \"u\"") && message.contains("kent region seal u --space parts"),
        "{message}"
    );
    kent("region create s --prefix 01 --suffix 8");
    kent("region split s --by 1");
    kent("region create taken --prefix 011 --suffix 4");
    let message = refused("s");
    assert!(
        message.contains("overlaps region \"taken\"") && message.contains("kent region delete taken --space parts"),
        "{message}"
    );
    kent("region create d --prefix 10 --suffix 8");
    kent("region set d --strict --owner ops");
    kent("region delete d");
    kent("region create e --prefix 10 --suffix 4");
    let message = refused("d");
    assert!(message.contains("overlaps region \"e\""), "{message}");
    recreation(&message).into_iter().for_each(|command| drop(operator.kent(command)));
    let made = operator.json("region show d --space parts");
    assert_eq!(
        (&made["policy"]["strict"], &made["owner"], &made["suffix_bits"]),
        (&json!(true), &json!("ops"), &json!(8))
    );
    kent("region delete e");
    kent("region create e --prefix 1001 --suffix 4");
    // The edit that adds `y` prevents an undo of the edit that adds `x`.
    kent("region subdivide s --by 1 --new x:2:1");
    kent("region subdivide s --by 1 --new y::0");
    let message = refused("x");
    assert!(
        message.contains("region \"s\" has been edited again after that edit")
            && message.contains("kent region undo --space parts"),
        "{message}"
    );
}

#[test]
fn err_an_allocation_that_is_refused_does_not_expand_the_region() {
    let operator = Operator::new();
    for (region, strict) in [("r", ""), ("strict", " --strict")] {
        operator.kent(&format!("region create {region} --suffix 4 --zone 8"));
        operator.kent(&format!("region set {region} --auto-expand 80:1:6{strict}"));
        let before = operator.json(&format!("region show {region}"));
        operator.refused(&format!("alloc region:{region} -n 65"), "CAPACITY_EXHAUSTED");
        assert_eq!(operator.json(&format!("region show {region}"))["suffix_bits"], before["suffix_bits"]);
        operator.kent(&format!("alloc region:{region} -n 64"));
        assert_eq!(operator.json(&format!("region show {region}"))["suffix_bits"], json!(6));
    }
}

#[tokio::test]
async fn err_a_request_above_the_burst_does_not_expand_the_region() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let auto_expand = Some(AutoExpand { at_percent: 80, by_bits: 4, max_suffix_bits: 0 });
    let (pace, policy) = (1, Some(Policy { auto_expand, ..Policy::default() }));
    let create = CreateRegionRequest { suffix_bits: Some(4), zone_bits: Some(20), pace, policy, ..create("slow") };
    daemon.regions().create_region(create).await.expect("created");
    daemon.allocator().allocate(request("region:slow", 9000, Encoding::Lease)).await.expect_err("a burst is 1024");
    let slow = daemon
        .regions()
        .get_region(GetRegionRequest { name: name("slow"), ..GetRegionRequest::default() })
        .await
        .expect("there")
        .into_inner();
    assert_eq!(slow.suffix_bits, 4);
}

#[test]
fn err_the_advice_for_a_full_region_counts_everything_that_the_caller_needs() {
    let operator = Operator::new();
    operator.kent("region create r --suffix 8");
    let refused = operator.refused("alloc region:r -n 20000", "CAPACITY_EXHAUSTED");
    assert!(refused.contains("of 20_000 in all") && refused.contains("--by 7"), "{refused}");
    operator.kent("region set r --cap 9");
    let refused = operator.refused("alloc region:r -n 20000", "CAPACITY_EXHAUSTED");
    assert!(refused.contains("--cap 20"), "{refused}");
}

#[tokio::test]
async fn ok_an_undo_with_a_request_id_is_made_once() {
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let mut regions = daemon.regions();
    regions.create_region(create("r")).await.expect("created");
    let seal = SealRegionRequest { name: name("r"), ..SealRegionRequest::default() };
    regions.seal_region(seal).await.expect("sealed");
    let undo = || UndoEditRequest { name: name("r"), request_id: "undo".to_owned(), ..UndoEditRequest::default() };
    let first = regions.undo_edit(undo()).await.expect("undone").into_inner();
    let again = regions.undo_edit(undo()).await.expect("known").into_inner();
    assert_eq!((first.revision, again.revision), (3, 3), "the retry undid the undo");
    let delete = |id: &str| DeleteRegionRequest { name: name("r"), request_id: id.to_owned(), ..Default::default() };
    let refused = regions.delete_region(delete("undo")).await.expect_err("another edit");
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    let deleted = regions.delete_region(delete("delete")).await.expect("deleted").into_inner();
    let again = regions.delete_region(delete("delete")).await.expect("known").into_inner();
    assert_eq!((deleted.revision, again.revision), (4, 4));
    assert_eq!(again.changes.len(), 1);
    let refused = daemon.allocator().allocate(request("region:r", 1, Encoding::Lease)).await.expect_err("deleted");
    assert_eq!(refused.code(), Code::NotFound, "{refused}");
    let reason = refused.get_error_details().error_info().map(|info| info.reason.clone());
    assert_eq!(reason.as_deref(), Some("NO_SUCH_REGION"));
}

#[test]
fn ok_a_space_without_regions_is_deleted_and_its_name_is_free() {
    let operator = Operator::new();
    operator.kent("space create parts --bits 23");
    operator.kent("region create r --suffix 4 --space parts");
    let refused = operator.refused("space delete parts", "SPACE_IN_USE");
    assert!(refused.contains("(kent region delete r --space parts)"), "{refused}");
    operator.kent("region delete r --space parts");
    assert!(operator.kent("space delete parts --dry-run").contains("can be deleted"));
    assert_eq!(operator.kent("space delete parts"), "space parts is deleted\n");
    operator.refused("region ls --space parts", "NO_SUCH_SPACE");
    operator.refused("space delete parts", "NO_SUCH_SPACE");
    operator.refused("space delete default", "DEFAULT_SPACE");
    operator.kent("space create parts --bits 32");
    let made = operator.json("region create r --suffix 4 --space parts");
    // Region numbers and revisions do not start over.
    assert_eq!((&made["region"]["number"], &made["revision"]), (&json!(2), &json!(4)));
    assert_eq!(operator.kent("region history --space parts").matches("revision 4 ").count(), 1);
    operator.kent("alloc region:r@parts");
}

#[test]
fn ok_a_delegation_ends_while_nothing_was_issued_in_its_space() {
    let operator = Operator::new();
    operator.kent("region create emea --suffix 20");
    operator.kent("region delegate emea");
    let refused = operator.refused("region delete emea", "DELEGATED");
    assert!(refused.contains("kent space delete default/emea"), "{refused}");
    operator.kent("region create a --suffix 4 --space default/emea");
    let refused = operator.refused("region undo", "SPACE_IN_USE");
    assert!(refused.contains("the delegation of region \"emea\" cannot end"), "{refused}");
    assert!(refused.contains("first delete \"a\" (kent region delete a --space default/emea)"), "{refused}");
    operator.kent("region delete a --space default/emea");
    operator.kent("space delete default/emea --dry-run");
    operator.kent("region undo");
    operator.refused("region ls --space default/emea", "NO_SUCH_SPACE");
    let (code, _, note) = operator.run("table export --at 2");
    let expected = "region emea was delegated then, and the space default/emea no longer exists";
    assert!(code == 0 && note.contains(expected) && !note.contains("kent table export"), "{note}");
    operator.kent("alloc region:emea");
    operator.refused("region delegate emea", "REGION_POPULATED");
    // A region is delegated again, and the revisions of its space continue.
    operator.kent("region create apac --suffix 20");
    for number in 1..4 {
        operator.kent("region delegate apac");
        let made = operator.json("region create a --suffix 4 --space default/apac");
        assert_eq!(made["region"]["number"], json!(number));
        operator.kent("region delete a --space default/apac");
        operator.kent("space delete default/apac");
    }
    operator.kent("region delete apac");
}
