//! Allowed dependencies between crates.
//!
//! A crate is split off only where its list of dependencies differs; this table is that list. It is stricter than the
//! compiler, which would let the core open a socket.

use crate::graph::Graph;
use crate::{cargo, expect_none};

struct Rule {
    name: &'static str,
    may_use: Allowed,
    /// External crates that must not be among its dependencies, not even indirectly. A star at the end is a wildcard.
    must_not_reach: &'static [&'static str],
}

enum Allowed {
    Only(&'static [&'static str]),
    AllBut(&'static [&'static str]),
}

use Allowed::{AllBut, Only};

/// The dependencies of the stages of the request path.
const PARTS: &[&str] = &["core", "config", "store", "wire", "provider", "model"];
/// The dependencies of the assistant: the stages, and what they use.
const STAGES: &[&str] = &["core", "config", "store", "wire", "provider", "pipeline"];
/// The dependencies of a program that runs the request path.
const PATH: &[&str] = &["core", "config", "store", "wire", "provider", "model", "pipeline", "assistant"];

/// The dependencies of a demonstration of the running gateway.
const DEMO: &[&str] =
    &["core", "config", "wire", "provider", "model", "pipeline", "assistant", "gateway", "testkit"];

/// The dependencies of the chaos test: it starts the program and uses nothing of its internals.
const CHAOS: &[&str] = &["core", "config", "store", "model", "gateway", "demo", "testkit"];

/// Crates that would let the core perform I/O, or make it nondeterministic.
const RUNTIMES_AND_CHANCE: &[&str] =
    &["tokio", "hyper", "http", "axum", "reqwest", "rand", "getrandom", "redis", "aws-*"];

/// Crates that the demo must not get through its test kit.
const HEAVY: &[&str] = &["redis", "redb", "rustls", "aws-*", "clap"];

#[rustfmt::skip] // A table is read by its columns.
const RULES: &[Rule] = &[
    rule("core",     Only(&[]),                   RUNTIMES_AND_CHANCE),
    rule("wire",     Only(&["core"]),             &["tokio", "hyper", "reqwest"]),
    rule("config",   Only(&["core"]),             &["tokio"]),
    rule("store",    Only(&["core"]),             &[]),
    rule("provider", Only(&["core", "wire"]),     &[]),
    rule("model",    Only(&["core", "wire"]),     &[]),
    rule("pipeline", Only(PARTS),                 &[]),
    rule("assistant", Only(STAGES),               &[]),
    rule("gateway",  Only(PATH),                  &[]),
    rule("sim",      Only(PATH),                  &["hyper", "axum"]),
    rule("drs",      Only(&["core"]),             &[]),
    // Shipped with the demo, and used by the tests of any crate but those it uses.
    rule("testkit",  Only(&["model"]),            HEAVY),
    rule("demo",     Only(DEMO),                  &[]),
    rule("chaos",    Only(CHAOS),                 &[]),
    rule("cli",      AllBut(&["xtask", "bench", "chaos"]), &[]),
    rule("bench",    AllBut(&[]),                 &[]),
    rule("xtask",    Only(&["config", "core"]),   &[]),
];

const fn rule(name: &'static str, may_use: Allowed, must_not_reach: &'static [&'static str]) -> Rule {
    Rule { name, may_use, must_not_reach }
}

impl Rule {
    fn may_use(&self, name: &str) -> bool {
        match self.may_use {
            Only(names) => names.contains(&name),
            AllBut(names) => !names.contains(&name),
        }
    }

    fn forbids_reaching(&self, name: &str) -> bool {
        self.must_not_reach.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == *pattern,
        })
    }
}

/// The name of a crate in the table: without the project's prefix, which every crate but `xtask` has.
fn short(name: &str) -> &str {
    name.strip_prefix("seawall-").unwrap_or(name)
}

fn rule_of(name: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.name == short(name))
}

fn forbidden_edges(workspace: &Graph) -> Vec<String> {
    let mut violations = Vec::new();
    for (name, used) in workspace.direct() {
        let Some(rule) = rule_of(name) else {
            violations.push(format!("{name} is not in the table of crates: add it, with what it may use"));
            continue;
        };
        let forbidden = used.iter().filter(|used| !rule.may_use(short(used)));
        violations.extend(forbidden.map(|used| format!("{name} must not use {used}")));
    }
    violations
}

fn forbidden_reach(name: &str, tree: &Graph) -> Option<String> {
    let rule = rule_of(name)?;
    let path = tree.path_to(name, |reached| rule.forbids_reaching(reached))?;
    Some(format!("{name} must not reach {}: {}", path.last()?, path.join(" > ")))
}

#[test]
fn crates_use_only_what_the_architecture_allows() -> anyhow::Result<()> {
    let metadata = cargo(&["metadata", "--format-version", "1", "--locked"])?;
    let workspace = Graph::of_workspace(&serde_json::from_str(&metadata)?)?;
    let mut violations = forbidden_edges(&workspace);
    for (name, _) in workspace.direct() {
        if rule_of(name).is_none_or(|rule| rule.must_not_reach.is_empty()) {
            continue;
        }
        // All platforms; but no proc macros, which run in the compiler and are not part of the program.
        let edges = ["--edges", "normal,no-proc-macro", "--target", "all", "--prefix", "depth"];
        let tree = cargo(&[&["tree", "--locked", "-p", name][..], &edges].concat())?;
        violations.extend(forbidden_reach(name, &Graph::of_tree(&tree)?));
    }
    expect_none(&violations)
}

#[cfg(test)]
mod tests {
    use super::{RULES, forbidden_edges, forbidden_reach};
    use crate::graph::Graph;

    fn graph(edges: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::default();
        for (user, used) in edges {
            graph.add(user, user);
            graph.add(used, used);
            graph.connect(user, used);
        }
        graph
    }

    #[test]
    fn allowed_edges_are_no_violations() {
        let edges = [
            ("seawall-wire", "seawall-core"),
            ("seawall-sim", "seawall-pipeline"),
            ("seawall-cli", "seawall-gateway"),
            ("seawall-bench", "seawall-cli"),
            ("xtask", "seawall-core"),
        ];
        assert!(forbidden_edges(&graph(&edges)).is_empty());
    }

    #[test]
    fn forbidden_edges_are_named() {
        let edges = [
            ("seawall-core", "seawall-config"),
            ("seawall-cli", "xtask"),
            ("seawall-pipeline", "seawall-gateway"),
            ("seawall-pipeline", "seawall-store"),
        ];
        let expected = [
            "seawall-cli must not use xtask",
            "seawall-core must not use seawall-config",
            "seawall-pipeline must not use seawall-gateway",
        ];
        assert_eq!(forbidden_edges(&graph(&edges)), expected);
    }

    #[test]
    fn a_crate_without_a_rule_is_a_violation() {
        let expected = ["seawall-misc is not in the table of crates: add it, with what it may use"];
        assert_eq!(forbidden_edges(&graph(&[("seawall-misc", "seawall-core")])), expected);
    }

    #[test]
    fn a_forbidden_outside_crate_is_found_through_others_and_the_way_is_shown() {
        let tree = graph(&[("seawall-core", "governor"), ("governor", "rand"), ("governor", "spinning_top")]);
        let expected = "seawall-core must not reach rand: seawall-core > governor > rand";
        assert_eq!(forbidden_reach("seawall-core", &tree).as_deref(), Some(expected));
        let tree = graph(&[("seawall-core", "aws-sdk-bedrock")]);
        let expected = "seawall-core must not reach aws-sdk-bedrock: seawall-core > aws-sdk-bedrock";
        assert_eq!(forbidden_reach("seawall-core", &tree).as_deref(), Some(expected));
    }

    #[test]
    fn a_name_that_only_looks_alike_is_no_violation() {
        let tree = graph(&[("seawall-core", "httparse"), ("seawall-core", "rand_core")]);
        assert_eq!(forbidden_reach("seawall-core", &tree), None);
        let tree = graph(&[("seawall-store", "tokio")]);
        assert_eq!(forbidden_reach("seawall-store", &tree), None);
    }

    #[test]
    fn each_crate_has_one_rule() {
        for rule in RULES {
            assert_eq!(RULES.iter().filter(|other| other.name == rule.name).count(), 1, "{}", rule.name);
        }
    }
}
