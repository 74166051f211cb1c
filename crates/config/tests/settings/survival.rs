//! Any input gives settings or a problem with a place, and never a panic.

use super::reading::{read, today};
use super::strategies::nonsense;
use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};
use proptest::sample::Index;
use seawall_config::{ProblemCode, Problems, SettingsInput, load, profile_text, read_file, show};
use std::fs;

fn survives(text: &str) -> Result<(), String> {
    match read(text) {
        Ok(loaded) => {
            let _ = (show(&loaded, true), loaded.warnings.render(true));
            Ok(())
        }
        Err(problems) => has_places(&problems),
    }
}

fn has_places(problems: &Problems) -> Result<(), String> {
    let _ = (problems.render(true), problems.to_json());
    let is_placed =
        problems.has_errors() && problems.list().iter().all(|problem| !problem.locations.is_empty());
    if is_placed { Ok(()) } else { Err(format!("{problems:?}")) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in ".*") {
        prop_assert!(survives(&text).is_ok(), "{:?}", survives(&text));
    }

    #[test]
    fn any_lines(text in "([a-z.\\[\\]\"'=#{}, 0-9漫\t]{0,20}\r?\n){0,8}") {
        prop_assert!(survives(&text).is_ok(), "{:?}", survives(&text));
    }

    #[test]
    fn any_values_under_real_keys(text in nonsense()) {
        prop_assert!(survives(&text).is_ok(), "{:?}", survives(&text));
    }

    #[test]
    fn a_profile_with_a_hole_or_a_splinter(
        start in any::<Index>(),
        length in 0_usize..40,
        splinter in "[\"'\\[\\]=\n#{},.a-z0-9漫]{0,6}",
    ) {
        let mut text = profile_text("mangaassist").unwrap().to_owned();
        text.insert_str(0, "profile = \"none\"\n");
        let mut places = text.char_indices().map(|(at, _)| at).collect::<Vec<_>>();
        places.push(text.len());
        let start = start.index(places.len());
        let end = (start + length).min(places.len() - 1);
        text.replace_range(places[start]..places[end], &splinter);
        prop_assert!(survives(&text).is_ok(), "{:?}\n{}", survives(&text), text);
    }

    #[test]
    fn any_variable(name in "(SEAWALL__)?[A-Z_]{0,20}", value in ".*", key in ".{0,20}") {
        let environment = vec![(name, value.clone()), ("SEAWALL__SERVER__LISTEN".to_owned(), value.clone())];
        let input = SettingsInput { environment, arguments: vec![(key, value)], today: today(), ..SettingsInput::default() };
        if let Err(problems) = load(&input) {
            prop_assert!(has_places(&problems).is_ok(), "{:?}", problems);
        }
    }
}

#[test]
fn a_text_that_is_too_long_is_refused_before_it_is_read() {
    let long = "#".repeat((16 << 20) + 1);
    let problems = read(&long).unwrap_err();
    assert_eq!(problems.list()[0].code, ProblemCode::TooLarge);
    assert!(read(&long[1..]).is_ok());
}

#[test]
fn deep_nesting_is_an_error_and_no_overflow() {
    for text in [
        format!("a = {}", "[".repeat(100_000)),
        format!("a{} = 1", ".a".repeat(100_000)),
        format!("a = {}", "{ a = ".repeat(50_000)),
    ] {
        assert!(survives(&text).is_ok());
    }
}

#[test]
fn a_file_that_cannot_be_read_is_a_problem_too() {
    let directory = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let problems = read_file(&directory.join("there-is-no-such-file.toml")).unwrap_err();
    assert_eq!(problems.list()[0].code, ProblemCode::UnreadableFile);
    let path = directory.join("latin.toml");
    fs::write(&path, b"a = 1\nb = \"\xe9\"\n").unwrap();
    let problems = read_file(&path).unwrap_err();
    assert!(problems.list()[0].message.ends_with("is not valid UTF-8: see line 2"), "{problems}");
    let endless = read_file(std::path::Path::new("/dev/zero")).unwrap_err();
    assert!(endless.list()[0].message.ends_with("is larger than 16777216 bytes"), "{endless}");
    fs::write(&path, "#".repeat(1 << 20)).unwrap();
    assert_eq!(read_file(&path).unwrap().text.len(), 1 << 20);
    fs::write(&path, "a = 1\n").unwrap();
    assert_eq!(&*read_file(&path).unwrap().text, "a = 1\n");
    fs::remove_file(&path).unwrap();
}
