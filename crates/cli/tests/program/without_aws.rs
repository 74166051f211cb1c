//! `seawall drs` in a build without the vendor's SDKs.

use crate::running::seawall;

#[test]
fn a_build_without_aws_lists_the_commands_and_says_how_to_get_them() -> anyhow::Result<()> {
    let help = seawall(&["drs", "--help"]).output()?;
    let listed = String::from_utf8(help.stdout)?;
    for command in ["servers", "jobs", "recover", "terminate", "launch-config", "wave", "capacity", "alarms"]
    {
        assert!(listed.contains(&format!("\n  {command} ")), "{command}: {listed}");
    }
    let refused = seawall(&["drs", "capacity"]).output()?;
    assert_eq!(refused.status.code(), Some(1));
    let message = String::from_utf8(refused.stderr)?;
    assert!(message.contains("cargo run --features aws -- drs --help"), "{message}");
    Ok(())
}
