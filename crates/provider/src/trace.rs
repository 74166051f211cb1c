//! Trace headers of a caller (W3C Trace Context), passed on to the provider so that its spans join the caller's trace.
//!
//! Headers are passed on only if they have the syntax of the standard: the receiver of a malformed `traceparent` would
//! start a trace of its own anyway, and a caller must not be able to send arbitrary text in a header to a provider. A
//! malformed or oversized `tracestate` is dropped alone. **What it does not do.** It invents no header and changes none:
//! the gateway has no spans of its own.

#[cfg(feature = "client")]
use std::borrow::Cow;

/// The name of the header that identifies a trace.
pub const TRACEPARENT: &str = "traceparent";
/// The name of the header with the vendors' own parts of a trace.
pub const TRACESTATE: &str = "tracestate";

/// Maximum length of a `tracestate`. The standard asks for 512 at least.
const MAX_STATE: usize = 4_096;
/// Maximum number of its members, by the standard.
const MAX_MEMBERS: usize = 32;

/// The trace headers of a request, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceHeaders {
    parent: Box<str>,
    state: Option<Box<str>>,
}

impl TraceHeaders {
    /// The headers of a caller; `None` unless there is exactly one valid `traceparent`. Several `tracestate` headers are
    /// one list.
    #[must_use]
    pub fn read<'h>(
        mut parents: impl Iterator<Item = &'h [u8]>,
        states: impl Iterator<Item = &'h [u8]>,
    ) -> Option<Self> {
        let parent = parents.next()?;
        if parents.next().is_some() || !is_parent(parent) {
            return None;
        }
        let parent = std::str::from_utf8(parent).ok()?;
        Some(Self { parent: parent.into(), state: read_state(states) })
    }

    /// Names and values.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        [(TRACEPARENT, &*self.parent)]
            .into_iter()
            .chain(self.state.as_deref().map(|state| (TRACESTATE, state)))
    }
}

/// These headers and those of the caller's trace, unless the settings of the target name them.
#[cfg(feature = "client")]
pub(crate) fn with_trace<'h>(
    mut headers: Cow<'h, [(String, String)]>,
    trace: Option<&TraceHeaders>,
) -> Cow<'h, [(String, String)]> {
    for (name, value) in trace.into_iter().flat_map(TraceHeaders::pairs) {
        if !headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
            headers.to_mut().push((name.to_owned(), value.to_owned()));
        }
    }
    headers
}

/// Whether this is a `traceparent`: version, trace id, parent id and flags. Versions after the first may have more.
fn is_parent(value: &[u8]) -> bool {
    let is_hex = |part: &[u8], length: usize| {
        part.len() == length && part.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_id = |part: &[u8], length: usize| is_hex(part, length) && part.iter().any(|byte| *byte != b'0');
    let mut parts = value.splitn(5, |byte| *byte == b'-');
    let (Some(version), Some(trace), Some(parent), Some(flags)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let rest = parts.next();
    let has_valid_rest = match version {
        b"00" => rest.is_none(),
        _ => value.len() <= MAX_STATE && rest.is_none_or(|rest| rest.iter().all(u8::is_ascii_graphic)),
    };
    is_hex(version, 2)
        && version != b"ff"
        && is_id(trace, 32)
        && is_id(parent, 16)
        && is_hex(flags, 2)
        && has_valid_rest
}

fn read_state<'h>(headers: impl Iterator<Item = &'h [u8]>) -> Option<Box<str>> {
    let mut state = String::new();
    for header in headers {
        if state.len() + header.len() >= MAX_STATE {
            return None;
        }
        let separator = if state.is_empty() { "" } else { "," };
        state.push_str(separator);
        state.push_str(std::str::from_utf8(header).ok()?);
    }
    let (mut members, mut keys) = (0, Vec::new());
    for member in state.split(',').map(|member| member.trim_matches([' ', '\t'])) {
        if member.is_empty() {
            continue;
        }
        let (key, value) = member.split_once('=')?;
        members += 1;
        if members > MAX_MEMBERS || !is_key(key) || !is_value(value) || keys.contains(&key) {
            return None;
        }
        keys.push(key);
    }
    (members > 0).then(|| state.into_boxed_str())
}

fn is_key(key: &str) -> bool {
    let is_rest = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/".contains(&byte);
    let is_name = |name: &str, max: usize, may_start_with_digit: bool| {
        (1..=max).contains(&name.len())
            && name.bytes().all(is_rest)
            && name.bytes().next().is_some_and(|first| {
                first.is_ascii_lowercase() || (may_start_with_digit && first.is_ascii_digit())
            })
    };
    match key.split_once('@') {
        Some((tenant, system)) => is_name(tenant, 241, true) && is_name(system, 14, false),
        None => is_name(key, 256, true),
    }
}

fn is_value(value: &str) -> bool {
    let is_allowed = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'=' && byte != b',';
    (1..=256).contains(&value.len()) && value.bytes().all(is_allowed) && !value.ends_with(' ')
}

#[cfg(test)]
mod tests {
    use super::TraceHeaders;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn read(parents: &[&str], states: &[&str]) -> Option<Vec<(String, String)>> {
        let bytes = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
        let (parents, states) = (bytes(parents), bytes(states));
        let trace = TraceHeaders::read(parents.iter().map(Vec::as_slice), states.iter().map(Vec::as_slice))?;
        Some(trace.pairs().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    fn state(states: &[&str]) -> Option<String> {
        read(&[PARENT], states).unwrap().into_iter().nth(1).map(|(_, value)| value)
    }

    #[test]
    fn a_valid_traceparent_is_passed_on_as_it_is() {
        let later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-has";
        for parent in [PARENT, later, "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"] {
            assert_eq!(
                read(&[parent], &[]),
                Some(vec![("traceparent".to_owned(), parent.to_owned())]),
                "{parent}"
            );
        }
    }

    #[test]
    fn a_malformed_traceparent_is_dropped_with_its_state() {
        let [trace, id] = ["4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"];
        for wrong in [
            String::new(),
            "00".to_owned(),
            format!("00-{trace}-{id}"),
            format!("00-{trace}-{id}-01-"),
            format!("00-{trace}-{id}-1"),
            format!("00-{trace}-{id}-0x"),
            format!("ff-{trace}-{id}-01"),
            format!("0-{trace}-{id}-01"),
            format!("00-{}-{id}-01", trace.to_uppercase()),
            format!("00-{}-{id}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{trace}{trace}-{id}-01"),
            format!("00-{trace}-{id}-01 "),
            format!("cc-{trace}-{id}-01-a b"),
            format!("cc-{trace}-{id}-01-{}", "x".repeat(5_000)),
            format!("00-{trace}-{id}-01é"),
        ] {
            assert_eq!(read(&[&wrong], &["a=b"]), None, "{wrong}");
        }
        assert_eq!(read(&[], &["a=b"]), None, "a state without a trace");
        assert_eq!(read(&[PARENT, PARENT], &[]), None, "two of them contradict each other");
    }

    #[test]
    fn a_valid_tracestate_is_passed_on_and_several_are_one_list() {
        for valid in [
            "a=b",
            "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE",
            "fw529a3039@dt=FfAAA",
            "a=b , c=d",
            "a=b,,c= d",
        ] {
            assert_eq!(state(&[valid]).as_deref(), Some(valid));
        }
        assert_eq!(state(&["a=b", "c=d"]).as_deref(), Some("a=b,c=d"));
    }

    #[test]
    fn a_malformed_tracestate_is_dropped_alone() {
        let many: Vec<String> = (0..33).map(|number| format!("k{number}=v")).collect();
        let long = format!("a={}", "v".repeat(257));
        let oversized = format!("{},b=c", "a=v, ".repeat(1_000));
        for wrong in [
            "",
            ",",
            "a",
            "a=",
            "=b",
            "A=b",
            "a=b=c",
            "a=é",
            "a=b,a=c",
            "@dt=b",
            "a@=b",
            "a@1t=b",
            "a=\u{7f}",
            &many.join(","),
            &long,
            &oversized,
        ] {
            assert_eq!(state(&[wrong]), None, "{wrong}");
        }
        assert_eq!(state(&[]), None);
    }
}
