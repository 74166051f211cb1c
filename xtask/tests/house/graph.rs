//! The dependency graph of crates.

use anyhow::Context as _;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A graph of crates. A node is a unique id; its name is the crate's name.
#[derive(Default)]
pub(crate) struct Graph {
    names: BTreeMap<String, String>,
    uses: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// The crates of the workspace and the edges between them, from `cargo metadata`. Dev-dependencies are left out: a
    /// test may use crates that the crate itself must not.
    pub(crate) fn of_workspace(metadata: &Value) -> anyhow::Result<Self> {
        let mut graph = Self::default();
        let members = list(metadata, "workspace_members")?;
        for package in list(metadata, "packages")?.iter().filter(|package| members.contains(&package["id"])) {
            graph.add(text(package, "id")?, text(package, "name")?);
        }
        for node in list(&metadata["resolve"], "nodes")? {
            for edge in list(node, "deps")? {
                let is_only_for_tests = list(edge, "dep_kinds")?.iter().all(|kind| kind["kind"] == "dev");
                let (user, used) = (text(node, "id")?, text(edge, "pkg")?);
                if !is_only_for_tests && graph.names.contains_key(user) && graph.names.contains_key(used) {
                    graph.connect(user, used);
                }
            }
        }
        Ok(graph)
    }

    /// All dependencies of one crate, from `cargo tree --prefix depth`. Unlike the metadata it reflects the features
    /// that are on when that crate is built alone. A heavy dependency of the shipped binary behind a feature therefore
    /// does not count against crates that leave the feature off.
    pub(crate) fn of_tree(tree: &str) -> anyhow::Result<Self> {
        let mut graph = Self::default();
        let mut path: Vec<&str> = Vec::new();
        for line in tree.lines() {
            let digits =
                line.len() - line.trim_start_matches(|character: char| character.is_ascii_digit()).len();
            let depth: usize = line[..digits].parse().with_context(|| format!("no depth in {line:?}"))?;
            // A repeated subtree is marked with a star; the node is the same.
            let node = line[digits..].trim_end_matches(" (*)");
            graph.add(node, node.split(' ').next().unwrap_or(node));
            path.truncate(depth);
            if let Some(user) = path.last() {
                graph.connect(user, node);
            }
            path.push(node);
        }
        Ok(graph)
    }

    pub(crate) fn add(&mut self, node: &str, name: &str) {
        self.names.insert(node.to_owned(), name.to_owned());
    }

    pub(crate) fn connect(&mut self, user: &str, used: &str) {
        self.uses.entry(user.to_owned()).or_default().insert(used.to_owned());
    }

    /// Every crate's name with the names of its direct dependencies.
    pub(crate) fn direct(&self) -> impl Iterator<Item = (&str, Vec<&str>)> {
        self.names
            .iter()
            .map(|(node, name)| (name.as_str(), self.used_by(node).map(|used| self.name(used)).collect()))
    }

    /// The shortest path from the crate `start` to one whose name `matches`, as names.
    pub(crate) fn path_to(&self, start: &str, matches: impl Fn(&str) -> bool) -> Option<Vec<&str>> {
        let start = self.names.iter().find(|(_, name)| *name == start).map(|(node, _)| node.as_str())?;
        let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
        let mut waiting = VecDeque::from([start]);
        while let Some(node) = waiting.pop_front() {
            if matches(self.name(node)) {
                let back = std::iter::successors(Some(node), |node| came_from.get(node).copied());
                let mut path: Vec<_> = back.map(|node| self.name(node)).collect();
                path.reverse();
                return Some(path);
            }
            for used in self.used_by(node) {
                if used != start && !came_from.contains_key(used) {
                    came_from.insert(used, node);
                    waiting.push_back(used);
                }
            }
        }
        None
    }

    fn used_by(&self, node: &str) -> impl Iterator<Item = &str> {
        self.uses.get(node).into_iter().flatten().map(String::as_str)
    }

    fn name<'a>(&'a self, node: &'a str) -> &'a str {
        self.names.get(node).map_or(node, String::as_str)
    }
}

fn list<'a>(value: &'a Value, key: &str) -> anyhow::Result<&'a Vec<Value>> {
    value[key].as_array().with_context(|| format!("no list `{key}` in the metadata"))
}

fn text<'a>(value: &'a Value, key: &str) -> anyhow::Result<&'a str> {
    value[key].as_str().with_context(|| format!("no text `{key}` in the metadata"))
}

#[test]
fn metadata_is_read_without_outside_crates_and_without_edges_for_tests() {
    let edge =
        |pkg: &str, kind: Option<&str>| serde_json::json!({ "pkg": pkg, "dep_kinds": [{ "kind": kind }] });
    let metadata = serde_json::json!({
        "workspace_members": ["core#1", "wire#1"],
        "packages": [
            { "id": "core#1", "name": "seawall-core" },
            { "id": "wire#1", "name": "seawall-wire" },
            { "id": "serde#1", "name": "serde" },
        ],
        "resolve": { "nodes": [
            { "id": "core#1", "deps": [edge("wire#1", Some("dev")), edge("serde#1", None)] },
            { "id": "wire#1", "deps": [edge("core#1", None)] },
            { "id": "serde#1", "deps": [] },
        ]},
    });
    let graph = Graph::of_workspace(&metadata).unwrap();
    let direct: Vec<_> = graph.direct().collect();
    assert_eq!(direct, [("seawall-core", vec![]), ("seawall-wire", vec!["seawall-core"])]);
    assert!(Graph::of_workspace(&serde_json::json!({})).is_err());
}

#[test]
fn a_tree_is_read_by_its_depths() {
    let graph = Graph::of_tree("0core v1 (folder)\n1a v1\n2b v1\n3c v1\n1b v2\n1d v1\n2a v1 (*)\n").unwrap();
    assert_eq!(graph.path_to("core", |name| name == "c"), Some(vec!["core", "a", "b", "c"]));
    assert_eq!(graph.path_to("core", |name| name == "d"), Some(vec!["core", "d"]));
    assert_eq!(graph.path_to("d", |name| name == "c"), Some(vec!["d", "a", "b", "c"]));
    assert_eq!(graph.path_to("core", |name| name == "e"), None);
    assert!(Graph::of_tree("no depth").is_err());
}
