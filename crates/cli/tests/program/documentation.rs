//! Documentation pages that must agree with the program.

use anyhow::Context as _;
use seawall_model::engine::{Engine, ModelOptions, read_faults};
use std::fs;
use std::path::Path;

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
