//! The text formats of metrics: OpenMetrics 1.0.0, and Prometheus 0.0.4, which every scraper understands.

use std::fmt::Write;

use prometheus_client::{encoding::text::encode, registry::Registry};

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// Prometheus 0.0.4.
    Prometheus,
}

impl Exposition {
    /// The format that a client prefers by its `Accept` header: OpenMetrics only if the header names it.
    pub fn accepted(accept: &str) -> Self {
        let quality = |wanted: &str| accept.split(',').filter_map(|range| quality(range, wanted)).fold(0.0, f32::max);
        let open_metrics = quality("application/openmetrics-text");
        match open_metrics > 0.0 && open_metrics >= quality("text/plain") {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    /// The value of the `Content-Type` header.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Renders all metrics of a registry in this format.
    pub(super) fn render(self, registry: &Registry) -> String {
        let mut text = String::new();
        // OK because writing to a String cannot fail.
        let _ = encode(&mut text, registry);
        match self {
            Self::OpenMetrics => text,
            Self::Prometheus => to_prometheus(&text),
        }
    }
}

/// The quality, normally from 0 to 1, that a media range gives to a media type. `None` if the range names another type
/// or version, or a quality that is not a number.
fn quality(range: &str, wanted: &str) -> Option<f32> {
    let mut parts = range.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case(wanted) {
        return None;
    }
    let mut quality = 1.0;
    for (name, value) in parts.filter_map(|parameter| parameter.split_once('=')) {
        match name.trim().to_ascii_lowercase().as_str() {
            "q" => quality = value.trim().parse().ok()?,
            "version" if !matches!(value.trim_matches(['"', ' ']), "1.0.0" | "0.0.4") => return None,
            _ => {}
        }
    }
    Some(quality)
}

/// Translates OpenMetrics. In Prometheus' format a family has the name of its samples, and there are no units and no
/// end mark.
fn to_prometheus(open_metrics: &str) -> String {
    let (mut text, mut help) = (String::with_capacity(open_metrics.len()), None);
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((family, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                _ => ("", kind),
            };
            let help = help.take().map_or("", |(_, help)| help);
            // OK because writing to a String cannot fail.
            let _ = writeln!(text, "# HELP {family}{suffix} {help}\n# TYPE {family}{suffix} {kind}");
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use prometheus_client::{
        metrics::{counter::Counter, gauge::Gauge, info::Info},
        registry::Unit,
    };

    use super::*;

    #[test]
    fn ok_a_client_gets_the_format_that_it_prefers() {
        // The header that a Prometheus 3 server sends.
        let server = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                      application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,\
                      text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let both = "text/plain;version=0.0.4;q=0.5,application/openmetrics-text;version=1.0.0;q=0.75";
        for (accept, expected) in [
            ("", Exposition::Prometheus),
            ("*/*", Exposition::Prometheus),
            ("text/html,application/xhtml+xml,*/*;q=0.8", Exposition::Prometheus),
            ("text/plain", Exposition::Prometheus),
            ("text/plain; version=0.0.4", Exposition::Prometheus),
            ("application/openmetrics-text", Exposition::OpenMetrics),
            ("Application/OpenMetrics-Text; version=\"1.0.0\"", Exposition::OpenMetrics),
            ("application/openmetrics-text; version=2.0.0", Exposition::Prometheus),
            ("application/openmetrics-text;q=0", Exposition::Prometheus),
            ("application/openmetrics-text;q=0.5,text/plain;version=0.0.4", Exposition::Prometheus),
            (both, Exposition::OpenMetrics),
            (server, Exposition::OpenMetrics),
            (";;=,q", Exposition::Prometheus),
        ] {
            assert_eq!(Exposition::accepted(accept), expected, "{accept:?}");
        }
    }

    #[test]
    fn ok_a_family_in_both_formats() {
        let mut registry = Registry::default();
        let (counter, gauge): (Counter, Gauge) = (Counter::default(), Gauge::default());
        counter.inc_by(3);
        registry.register("commits", "Durable commits", counter);
        registry.register_with_unit("memory", "Memory in use", Unit::Bytes, gauge);
        registry.register("build", "Version", Info::new([("version", "1")]));
        assert_eq!(
            Exposition::OpenMetrics.render(&registry),
            "# HELP commits Durable commits.\n# TYPE commits counter\ncommits_total 3\n\
             # HELP memory_bytes Memory in use.\n# TYPE memory_bytes gauge\n# UNIT memory_bytes bytes\nmemory_bytes 0\n\
             # HELP build Version.\n# TYPE build info\nbuild_info{version=\"1\"} 1\n# EOF\n"
        );
        assert_eq!(
            Exposition::Prometheus.render(&registry),
            "# HELP commits_total Durable commits.\n# TYPE commits_total counter\ncommits_total 3\n\
             # HELP memory_bytes Memory in use.\n# TYPE memory_bytes gauge\nmemory_bytes 0\n\
             # HELP build_info Version.\n# TYPE build_info gauge\nbuild_info{version=\"1\"} 1\n"
        );
    }
}
