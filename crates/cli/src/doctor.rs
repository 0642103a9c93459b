//! `kent doctor`: checks a daemon and what it depends on, and gives advice for each problem.

mod checks;
mod clocks;

use kent_client::Daemon;
use kent_proto::v1::{DiagnoseRequest, Diagnosis};
use serde_json::{Value, json};

use self::checks::{Check, Problem, State, all};
use self::clocks::Offset;
use crate::connect::request;
use crate::failure::Failure;
use crate::output::{Out, Palette, Role};
use crate::table::{Cell, Table};

/// Prints the checks and their problems. Fails if something is wrong, so that scripts can detect it.
pub(crate) async fn run(daemon: &Daemon, out: &mut Out) -> Result<(), Failure> {
    // Request the diagnosis first: if the daemon refuses it, the refusal names the missing permission.
    let diagnosis = daemon.admin().diagnose(request(DiagnoseRequest {})).await?.into_inner();
    let offset = clocks::measure(daemon).await?;
    let checks = all(&diagnosis, offset);
    let printed = match out.is_json() {
        true => out.json(&to_json(&checks, &diagnosis, offset)),
        false => {
            let page = render(&checks, out.palette());
            out.text(&page)
        }
    };
    let is_well = checks.iter().all(|check| check.state() != State::Wrong);
    Failure::unless_well(is_well, printed)
}

/// Returns the problems of all checks, the most severe first. Problems of the same severity are ordered by the time
/// until they have consequences.
fn problems(checks: &[Check]) -> Vec<(&'static str, &Problem)> {
    let mut problems: Vec<_> =
        checks.iter().flat_map(|check| check.problems.iter().map(|problem| (check.name, problem))).collect();
    let soon = |problem: &Problem| problem.within.unwrap_or(f64::INFINITY);
    problems.sort_by(|(_, one), (_, other)| other.state.cmp(&one.state).then(soon(one).total_cmp(&soon(other))));
    problems
}

fn render(checks: &[Check], palette: Palette) -> String {
    let mut table = Table::new(["CHECK", "STATE", "FOUND"]);
    for check in checks {
        let state = check.state();
        let (mut name, mut shown) = (Cell::from(check.name), Cell::new(state.role(), state.name()));
        for fact in &check.facts {
            table.row([name, shown, Cell::from(fact)]);
            (name, shown) = ("".into(), "".into());
        }
    }
    let mut text = table.render(palette);
    let problems = problems(checks);
    if problems.is_empty() {
        text.push_str(&format!("\n{}\n", palette.paint(Role::Good, "Nothing is wrong, and nothing is near a limit.")));
        return text;
    }
    text.push_str(&format!("\n{}\n", palette.paint(Role::Heading, "Problems, the most urgent first:")));
    for (number, (check, Problem { state, what, advice, .. })) in (1..).zip(problems) {
        let head = palette.paint(state.role(), &format!("{check}: {what}"));
        text.push_str(&format!("{number}. {head}\n   {advice}\n"));
    }
    text
}

fn to_json(checks: &[Check], diagnosis: &Diagnosis, offset: Offset) -> Value {
    let check = |check: &Check| json!({"check": check.name, "state": check.state().name(), "found": check.facts});
    let problem = |(check, problem): &(&str, &Problem)| {
        json!({
            "check": check,
            "state": problem.state.name(),
            "problem": problem.what,
            "advice": problem.advice,
            "within_seconds": problem.within,
        })
    };
    let directories = diagnosis.directories.iter().map(|directory| {
        json!({
            "setting": directory.setting,
            "path": directory.path,
            "free_bytes": directory.free_bytes,
            "total_bytes": directory.total_bytes,
            "sync_micros": directory.sync_micros,
            "sync_max_micros": directory.sync_max_micros,
            "problem": directory.problem,
        })
    });
    json!({
        "ok": checks.iter().all(|check| check.state() != State::Wrong),
        "problems": problems(checks).iter().map(problem).collect::<Value>(),
        "checks": checks.iter().map(check).collect::<Value>(),
        "measured": {
            "clock_offset_ms": offset.millis,
            "clock_offset_error_ms": offset.error_millis,
            "directories": directories.collect::<Value>(),
            "store_bytes": diagnosis.store_size.map(|size| size.bytes),
            "journal_bytes": diagnosis.store_size.map(|size| size.journal_bytes),
            "etcd": diagnosis.etcd.as_ref().map(etcd_json),
            "open_files": diagnosis.open_files,
            "open_files_max": diagnosis.open_files_max,
        },
    })
}

fn etcd_json(etcd: &kent_proto::v1::Etcd) -> Value {
    let members = etcd.members.iter().map(|member| {
        json!({
            "name": member.name,
            "endpoint": member.endpoint,
            "addressed": member.addressed,
            "learner": member.learner,
            "problem": member.problem,
            "version": member.version,
            "latency_micros": member.latency_micros,
            "database_bytes": member.database_bytes,
            "used_bytes": member.used_bytes,
            "quota_bytes": member.quota_bytes,
            "leader": member.leader,
        })
    });
    json!({
        "read_micros": etcd.read_micros,
        "problem": etcd.problem,
        "alarms": etcd.alarms,
        "members": members.collect::<Value>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &'static str, problems: Vec<Problem>) -> Check {
        Check { name, facts: vec![format!("of {name}")], problems }
    }

    fn problem(state: State, what: &str, within: Option<f64>) -> Problem {
        Problem { state, what: what.to_owned(), advice: "Do this.".to_owned(), within }
    }

    #[test]
    fn ok_what_goes_wrong_first_comes_first() {
        let checks = [
            check("disk", vec![problem(State::Warning, "slow", None)]),
            check("clock", Vec::new()),
            check(
                "regions",
                vec![problem(State::Warning, "soon", Some(60.0)), problem(State::Wrong, "full", Some(0.0))],
            ),
        ];
        assert_eq!(
            render(&checks, Palette::PLAIN),
            "\
CHECK    STATE    FOUND
disk     warning  of disk
clock    ok       of clock
regions  wrong    of regions

Problems, the most urgent first:
1. regions: full
   Do this.
2. regions: soon
   Do this.
3. disk: slow
   Do this.
"
        );
        let healthy = render(&checks[1..2], Palette::PLAIN);
        assert!(healthy.ends_with("\nNothing is wrong, and nothing is near a limit.\n"), "{healthy}");
    }

    #[test]
    fn ok_a_page_for_programs() {
        let checks = [check("disk", vec![problem(State::Wrong, "full", Some(9.5))])];
        let value = to_json(&checks, &Diagnosis::default(), Offset { millis: 0.5, error_millis: 0.25 });
        assert_eq!(value["ok"], json!(false));
        assert_eq!(value["problems"][0]["within_seconds"], json!(9.5));
        assert_eq!(value["checks"], json!([{"check": "disk", "state": "wrong", "found": ["of disk"]}]));
        assert_eq!(value["measured"]["clock_offset_ms"], json!(0.5));
    }
}
