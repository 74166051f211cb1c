//! Tools in namespaces, which no other dialect has.
//!
//! The name of such a tool is written as one name for other dialects, and split again in the model's calls. Nothing of
//! the request is known where a call is written, so the joined name has to show that it is one. Names of tools may
//! contain letters, digits, `_` and `-` in every dialect.

const SEPARATOR: &str = "-ns-";

/// One name for a tool in a namespace.
pub(super) fn join(namespace: &str, name: &str) -> String {
    format!("{namespace}{SEPARATOR}{name}")
}

/// The namespace, if any, and the name of a tool.
pub(super) fn split(name: &str) -> (Option<&str>, &str) {
    match name.split_once(SEPARATOR) {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, name),
    }
}
