//! Suggestions for misspelt names.

use strsim::damerau_levenshtein;

/// The name in `known_names` that was most likely intended: the nearest by edit distance, or the only one that shares a part.
pub(crate) fn nearest<'a>(word: &str, known_names: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    // The comparison costs the product of both lengths, and a name this long is not a typo.
    if word.len() > 100 {
        return None;
    }
    let normalized = |text: &str| text.to_ascii_lowercase().replace(['-', ' ', '.'], "_");
    let normalized_word = normalized(word);
    let scored =
        known_names.clone().map(|name| (damerau_levenshtein(&normalized_word, &normalized(name)), name));
    let (distance, name) = scored.min()?;
    let max_distance = (name.chars().count().max(word.chars().count()) / 3).max(1);
    if distance <= max_distance {
        return Some(name);
    }
    let has_part = |text: &str, part: &str| part.len() > 2 && text.split('_').any(|piece| piece == part);
    let mut similar = known_names.filter(|name| {
        has_part(&normalized_word, &normalized(name)) || has_part(&normalized(name), &normalized_word)
    });
    let only = similar.next()?;
    similar.next().is_none().then_some(only)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_typo_is_recognised_and_another_word_is_not() {
        let known_names = || ["listen", "runtime", "cores", "tls"].into_iter();
        assert_eq!(nearest("lisen", known_names()), Some("listen"));
        assert_eq!(nearest("Run-Time", known_names()), Some("runtime"));
        assert_eq!(nearest("tsl", known_names()), Some("tls"));
        assert_eq!(nearest("budget", known_names()), None);
        assert_eq!(nearest("api_key", ["key", "model"].into_iter()), Some("key"));
        assert_eq!(nearest("burst", ["stage_burst", "rate"].into_iter()), Some("stage_burst"));
        assert_eq!(nearest("burst", ["stage_burst", "connect_burst"].into_iter()), None);
        assert_eq!(nearest("x", [].into_iter()), None);
        assert_eq!(nearest(&"x".repeat(101), known_names()), None);
    }
}
