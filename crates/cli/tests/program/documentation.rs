//! Documentation pages that must agree with the program.

use crate::first_mile::new_user;
use crate::running::scratch_dir;
use anyhow::Context as _;
use seawall_model::engine::{Engine, ModelOptions, read_faults};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn the_page_on_the_model_names_every_fault_and_its_example_runs() -> anyhow::Result<()> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/model.md"))?;
    let examples: Vec<_> =
        page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 2);
    for example in examples {
        Engine::new(ModelOptions { faults: read_faults(example.as_bytes())?, ..Default::default() })?;
    }
    let unknown = read_faults(b"[[fault]]\nkind = \"unheard\"").map(drop).map_err(|error| error.to_string());
    let kinds = unknown.err().context("an unheard kind was taken")?;
    let kinds: Vec<&str> = kinds.split('`').skip(3).step_by(2).collect();
    assert_eq!(kinds.len(), 24);
    for kind in kinds {
        assert!(page.contains(&format!("\n| `{kind}` |")), "{kind} is not on the page");
    }
    Ok(())
}

/// The pages that people read from top to bottom, with their texts.
fn pages() -> anyhow::Result<Vec<(PathBuf, String)>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = vec![root.join("README.md")];
    for directory in ["docs", "docs/guides"] {
        for entry in fs::read_dir(root.join(directory))? {
            paths.push(entry?.path());
        }
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    paths.sort();
    paths.into_iter().map(|path| Ok((path.clone(), fs::read_to_string(&path)?))).collect()
}

/// The names of the tables of this kind in an example, such as those of its targets.
fn names_of(example: &str, kind: &str) -> Vec<String> {
    let headers =
        example.lines().filter_map(|line| line.strip_prefix(&format!("[{kind}."))?.split(']').next());
    headers.map(|name| name.trim_matches('"').to_owned()).collect()
}

/// An example with the least that makes a whole file of it: a target where it has none, and the routes that it mentions.
fn completed(example: &str) -> String {
    let mut text = example.to_owned();
    let routes = names_of(example, "routes");
    let has_route = |name: &str| routes.iter().any(|known| known == name);
    let mut targets = names_of(example, "targets");
    if !targets.iter().any(|known| known == "sonnet") {
        text += "\n[targets.sonnet]\nprovider = \"anthropic\"\nmodel = \"claude-sonnet-5-5\"\n";
    }
    if !has_route("assistant") {
        text += "\n[routes.assistant]\ntargets = [\"sonnet\"]\n";
    }
    // A route with a wildcard may have targets of any kind.
    if !targets.iter().any(|known| known == "sonnet") {
        targets.push("sonnet".to_owned());
    }
    if !has_route("claude-*") {
        let all: Vec<String> = targets.iter().map(|target| format!("{target:?}")).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n[routes.\"claude-*\"]\ntargets = [{}]", all.join(", "));
    }
    text
}

#[test]
fn every_example_of_settings_in_the_documentation_is_accepted() -> anyhow::Result<()> {
    let home = scratch_dir("documentation")?;
    fs::create_dir_all(&home)?;
    let prices =
        r#"{"xai/m":{"litellm_provider":"xai","input_cost_per_token":1e-6,"output_cost_per_token":2e-6}}"#;
    fs::write(home.join("model_prices_and_context_window.json"), prices)?;
    let mut checked = 0;
    for (path, page) in pages()? {
        let examples = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
        for example in examples {
            // Faults of the simulated model are checked above; the other is a file of Codex.
            if example.contains("[[fault]]") || example.contains("[model_providers.") {
                continue;
            }
            let text = completed(example);
            fs::write(home.join("seawall.toml"), &text)?;
            let output =
                new_user(&home, &[], &["config", "check", "--without-secrets", "seawall.toml"]).output()?;
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(0), "{}:\n{text}\n{errors}", path.display());
            // Everything but what a fragment leaves open must be free of warnings, too.
            let unexpected: Vec<&str> = errors
                .lines()
                .filter(|line| line.starts_with("warning[") && !line.starts_with("warning[no-budget]"))
                .collect();
            assert!(unexpected.is_empty(), "{}:\n{text}\n{errors}", path.display());
            checked += 1;
        }
    }
    assert!(checked >= 12, "{checked} examples were found");
    Ok(())
}
