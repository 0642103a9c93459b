//! `kent-bench plot`: draws the measurements that scenarios wrote with `--json`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::{Value, json};

use crate::svg::{self, Axes, Line, Panel, Scale};

/// Draw the output of `grant --json`, `scale --json` and `tail --json` as SVG.
///
/// Write up to three files: latency.svg shows percentiles of the latency of each contender, with one panel per load;
/// scale.svg shows rates by the number of regions, connections, and identifiers per block; tail.svg shows the longest
/// call of each slice, and how long the machine stood still.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  kent-bench grant --json > run.jsonl\n  kent-bench scale --json >> run.jsonl\n  \
                        kent-bench plot run.jsonl --out docs")]
pub(crate) struct PlotArgs {
    /// Files with one JSON object per line.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the files to this directory.
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
}

/// The names of the percentiles in the input, and their positions on a logarithmic axis. 99 % is at 100, because one
/// call in 100 is slower.
const PERCENTILES: [(&str, f64); 4] = [("p50_us", 2.0), ("p90_us", 10.0), ("p99_us", 100.0), ("p999_us", 1000.0)];

/// Colors that people with red-green color blindness can distinguish (Okabe and Ito).
const COLORS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#000000"];

pub(crate) fn run(args: &PlotArgs) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for file in &args.files {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        rows.extend(
            parse(&text).with_context(|| format!("{} is not the output of kent-bench with --json", file.display()))?,
        );
    }
    let latency = panels(&rows, |row| text(row, "scenario") == Some("grant"), Percentiles);
    let scale = panels(&rows, |row| row["at"].is_u64(), Axis);
    rows.extend(standstills(&rows));
    let tail = panels(&rows, |row| text(row, "scenario") == Some("tail"), Slices);
    ensure!(
        latency.len() + scale.len() + tail.len() > 0,
        "nothing to draw: no lines of `kent-bench grant --json`, `scale --json` or `tail --json`"
    );
    write(&args.out, "latency.svg", &latency)?;
    write(&args.out, "scale.svg", &scale)?;
    write(&args.out, "tail.svg", &tail)
}

fn write(dir: &Path, name: &str, panels: &[Panel]) -> anyhow::Result<()> {
    if panels.is_empty() {
        eprintln!("skipping {name}: the input has no measurements for it");
        return Ok(());
    }
    let path = dir.join(name);
    fs::write(&path, svg::svg(panels, Axes::Own)).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

/// Parses the lines, and keeps those of contenders.
fn parse(lines: &str) -> serde_json::Result<Vec<Value>> {
    let rows = lines.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str);
    Ok(rows
        .collect::<serde_json::Result<Vec<Value>>>()?
        .into_iter()
        .filter(|row| row["contender"].is_string())
        .collect())
}

fn text<'a>(row: &'a Value, name: &str) -> Option<&'a str> {
    row[name].as_str()
}

/// Returns rows of the standstills of the machine beside the longest calls of the daemon.
fn standstills(rows: &[Value]) -> Vec<Value> {
    let measured =
        rows.iter().filter(|row| text(row, "contender") == Some("kentd") && row["standstill_us"].get(0).is_some());
    let line = |row: &Value| {
        let [scenario, load] = ["scenario", "load"].map(|name| &row[name]);
        let name = "standstill of the machine, beside kentd";
        json!({"scenario": scenario, "load": load, "contender": name, "series": name, "longest_us": row["standstill_us"]})
    };
    measured.map(line).collect()
}

/// Converts a row to points of a panel.
trait Drawn {
    fn points(&self, row: &Value) -> Vec<(f64, f64)>;
    fn panel(&self, row: &Value) -> Panel;
}

/// Latency by percentile.
struct Percentiles;

/// Rate by the value on the row's axis.
struct Axis;

/// The longest call of each slice.
struct Slices;

impl Drawn for Percentiles {
    fn points(&self, row: &Value) -> Vec<(f64, f64)> {
        PERCENTILES.iter().filter_map(|(name, at)| Some((*at, row[*name].as_f64()?))).collect()
    }

    fn panel(&self, row: &Value) -> Panel {
        let title = format!("{}: latency, µs", text(row, "load").unwrap_or_default());
        let x = "share of the calls".to_owned();
        Panel { title, x, scale: Scale::Logarithmic, tick: share, lines: Vec::new() }
    }
}

impl Drawn for Axis {
    fn points(&self, row: &Value) -> Vec<(f64, f64)> {
        row["at"].as_f64().zip(row["median"].as_f64()).into_iter().collect()
    }

    fn panel(&self, row: &Value) -> Panel {
        let [load, what, axis] = ["load", "what", "axis"].map(|name| text(row, name).unwrap_or_default());
        let title = format!("{load}: {what} per second");
        Panel { title, x: axis.to_owned(), scale: Scale::Logarithmic, tick: svg::digits, lines: Vec::new() }
    }
}

impl Drawn for Slices {
    fn points(&self, row: &Value) -> Vec<(f64, f64)> {
        let longest = row["longest_us"].as_array().into_iter().flatten().filter_map(Value::as_f64);
        (1_u32..).map(f64::from).zip(longest.map(|micros| micros / 1e3)).collect()
    }

    fn panel(&self, row: &Value) -> Panel {
        let title = format!("{}: longest call, ms", text(row, "load").unwrap_or_default());
        Panel { title, x: "slice".to_owned(), scale: Scale::Linear, tick: svg::digits, lines: Vec::new() }
    }
}

/// Returns the percentile at a position on the axis: 100 becomes "99 %".
fn share(one_of: f64) -> String {
    let percent = 100.0 - 100.0 / one_of;
    format!("{} %", (percent * 1000.0).round() / 1000.0)
}

/// Returns one panel per scenario and load in the order of the input, with one line per series.
fn panels(rows: &[Value], is_shown: impl Fn(&Value) -> bool, drawn: impl Drawn) -> Vec<Panel> {
    // These two contenders have the same colors in all plots.
    let mut names: Vec<&str> = vec!["bare", "kentd"];
    let mut panels: Vec<([Option<&str>; 2], Panel)> = Vec::new();
    for row in rows.iter().filter(|row| is_shown(row)) {
        let (key, Some(series)) = (["scenario", "load"].map(|name| text(row, name)), text(row, "series")) else {
            continue;
        };
        let at = panels.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            panels.push((key, drawn.panel(row)));
            panels.len() - 1
        });
        let color = names.iter().position(|known| *known == series).unwrap_or_else(|| {
            names.push(series);
            names.len() - 1
        });
        let lines = &mut panels[at].1.lines;
        match lines.iter_mut().find(|line| line.name == series) {
            Some(line) => line.points.extend(drawn.points(row)),
            None => {
                let color = COLORS[color % COLORS.len()];
                lines.push(Line { name: series.to_owned(), color, points: drawn.points(row) });
            }
        }
    }
    panels.into_iter().map(|(_, panel)| panel).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = r#"
{"scenario": "grant", "load": "1 client", "contender": "bare", "series": "bare", "p50_us": 30, "p90_us": 40, "p99_us": 80}
{"scenario": "grant", "load": "1 client", "contender": "kentd", "series": "kentd", "p50_us": 31, "p99_us": 90}
{"scenario": "grant", "fact": "kentd / bare", "value": 0.95}
{"scenario": "scale", "load": "regions", "contender": "kentd, 1 region", "series": "kentd", "axis": "regions", "at": 1, "median": 5e4, "what": "requests"}
{"scenario": "scale", "load": "regions", "contender": "kentd, 10 regions", "series": "kentd", "axis": "regions", "at": 10, "median": 4e4, "what": "requests"}
"#;

    #[test]
    fn ok_each_contender_is_a_line_of_percentiles() {
        let rows = parse(LINES).expect("well-formed");
        let panels = panels(&rows, |row| text(row, "scenario") == Some("grant"), Percentiles);
        let [Panel { title, lines, .. }] = panels.as_slice() else { panic!("one load") };
        assert_eq!(title, "1 client: latency, µs");
        let points: Vec<_> = lines.iter().map(|line| (line.name.as_str(), line.points.as_slice())).collect();
        assert_eq!(points[0], ("bare", [(2.0, 30.0), (10.0, 40.0), (100.0, 80.0)].as_slice()));
        assert_eq!(points[1], ("kentd", [(2.0, 31.0), (100.0, 90.0)].as_slice()));
    }

    #[test]
    fn ok_values_on_an_axis_are_points_of_one_line() {
        let rows = parse(LINES).expect("well-formed");
        let panels = panels(&rows, |row| row["at"].is_u64(), Axis);
        let [Panel { x, lines, .. }] = panels.as_slice() else { panic!("one axis") };
        assert_eq!((x.as_str(), lines.len()), ("regions", 1));
        assert_eq!(lines[0].points, [(1.0, 5e4), (10.0, 4e4)]);
    }

    #[test]
    fn ok_the_longest_calls_are_points_by_slice() {
        let line = r#"{"scenario": "tail", "load": "half", "contender": "bare", "series": "bare", "longest_us": [3000, 4500]}"#;
        let panels = panels(&parse(line).expect("well-formed"), |_| true, Slices);
        assert_eq!(panels[0].title, "half: longest call, ms");
        assert_eq!(panels[0].lines[0].points, [(1.0, 3.0), (2.0, 4.5)]);
    }

    #[test]
    fn ok_standstills_are_a_line_beside_the_daemon() {
        let of = |contender, times: &[u32]| json!({"scenario": "tail", "load": "half", "contender": contender, "standstill_us": times});
        let [row] = &standstills(&[of("bare", &[1]), of("kentd", &[]), of("kentd", &[10_000, 0])])[..] else {
            panic!("one row")
        };
        assert_eq!(Slices.points(row), [(1.0, 10.0), (2.0, 0.0)]);
        assert_eq!((text(row, "scenario"), text(row, "load")), (Some("tail"), Some("half")));
    }

    #[test]
    fn ok_ticks_are_percentiles() {
        assert_eq!([1.0, 10.0, 100.0, 1000.0].map(share), ["0 %", "90 %", "99 %", "99.9 %"]);
    }

    #[test]
    fn err_other_files_are_rejected() {
        assert!(parse("grant  contender\n").is_err());
    }
}
